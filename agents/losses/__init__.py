"""Losses: one function, one equation."""
