"""Runs: the files in a run's folder."""
