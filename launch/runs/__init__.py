"""What is kept of a run, in its folder."""
