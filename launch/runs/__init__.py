"""Runs: reads and writes the files in a run's folder, such as snapshots."""
