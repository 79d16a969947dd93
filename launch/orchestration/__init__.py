"""Orchestration: limits, schedule, commands and state of a run."""
