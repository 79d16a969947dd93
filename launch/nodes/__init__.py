"""The nodes: control, replay, trainer, proxy, worker, evaluator."""
