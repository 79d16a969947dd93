"""Nodes: control, replay, trainer, proxy, worker and evaluator."""
