"""API: trains, loads, plots and joins runs from Python."""
