"""Plans larger clusters from the capacity of each component of a run."""
