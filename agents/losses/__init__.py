"""Losses: pure functions, each of which computes one equation."""
