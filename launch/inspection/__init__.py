"""Inspection of a run's table and policy."""
