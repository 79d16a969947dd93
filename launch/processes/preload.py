"""Preload: imports the modules of all nodes in a machine's fork server.

A node that is forked afterwards starts at once, and shares the memory of the
imported modules. The imports must not execute TensorFlow operations, because
TensorFlow's threads do not survive a fork.
"""

import gc
import importlib
import signal

from slipway.launch.processes import lean_tensorflow, signals

# Names of the modules of `slipway.launch.nodes` to import.
_NODE_MODULES = (
  "evaluator_node",
  "proxy",
  "replay",
  "trainer_node",
  "worker_node",
)

for _number in signals.GROUP_SIGNALS:
  signal.signal(_number, signal.SIG_IGN)
with lean_tensorflow.paused_garbage_collection():
  lean_tensorflow.import_tensorflow()
  for _name in _NODE_MODULES:
    importlib.import_module(f"slipway.launch.nodes.{_name}")
# The garbage collector writes to every object that it visits, which would copy
# the shared memory in each node. Imports leave it nothing to collect.
gc.freeze()
