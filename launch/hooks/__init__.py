"""Hooks: calls code at events of a run."""
