"""Algorithms, one folder per family, and their shared losses and networks."""
