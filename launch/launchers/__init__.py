"""Launchers: execute a run in one thread, in threads, or in processes."""
