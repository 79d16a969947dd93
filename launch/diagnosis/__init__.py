"""Checks of a run: findings from its measurements, config and status."""
