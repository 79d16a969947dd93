"""Nodes: the roles of a run's processes, such as trainer, worker and proxy."""
