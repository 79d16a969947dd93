"""Preload: what the fork server imports once, for all nodes of a machine.

A node that is forked from it comes up in the time of a fork, and shares the
memory of what is imported. Nothing here may run TensorFlow: what it makes for
that, threads above all, does not survive a fork.
"""

import gc
import importlib
import signal
import sys

from slipway.launch.processes import node_process

_NODES = (
  "control",
  "evaluator_node",
  "proxy",
  "replay",
  "trainer_node",
  "worker_node",
)

for _number in node_process.GROUP_SIGNALS:
  signal.signal(_number, signal.SIG_IGN)
# TensorFlow Lite's converter imports JAX where there is one: a fifth of the
# time of all imports, for nothing that a node uses.
sys.modules["jax"] = None  # pyright: ignore[reportArgumentType]
for _node in _NODES:
  importlib.import_module(f"slipway.launch.nodes.{_node}")
del sys.modules["jax"]  # an environment may need it
# The collector writes to each object that it looks at, and so would copy in
# each node the memory that it shares.
gc.collect()
gc.freeze()
