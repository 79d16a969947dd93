"""Machines: runs node groups on the machines of a Ray cluster."""
