"""Checks: from a command line to a checked config, before anything starts."""
