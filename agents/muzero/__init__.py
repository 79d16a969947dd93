"""Gumbel MuZero: planning with a learned model."""
