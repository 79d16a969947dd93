"""Machines: the parts of a run on a Ray cluster, and who looks after them."""
