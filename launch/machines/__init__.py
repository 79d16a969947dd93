"""Machines: runs the node groups of a run on the machines of a Ray cluster."""
