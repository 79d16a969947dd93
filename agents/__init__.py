"""Agents: one folder per family of algorithms; losses and networks for all."""
