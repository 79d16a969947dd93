"""Profiling: where the time of a run's processes goes."""
