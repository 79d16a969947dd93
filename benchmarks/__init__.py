"""Measurements beside the raw libraries and the peers, as ratios."""
