"""Replay tables, in Reverb servers or in-process: readers and snapshots."""
