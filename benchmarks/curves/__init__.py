"""Draws learning curves of algorithms over seeds, and summarises them."""
