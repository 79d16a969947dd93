"""Processes: starts, monitors and restarts a machine's node processes."""
