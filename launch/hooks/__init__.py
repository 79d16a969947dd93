"""Hooks: functions that are called at events of a run, such as evaluations."""
