"""Preload: the imports of the fork server, for all nodes of a machine.

A forked node starts at once, and shares the memory of the imported modules.
Nothing here may execute TensorFlow, whose threads do not survive a fork.
"""

import gc
import importlib
import signal

from slipway.launch.processes import lean_tensorflow, signals

_NODES = (  # modules of `slipway.launch.nodes`
  "control",
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
  for _node in _NODES:
    importlib.import_module(f"slipway.launch.nodes.{_node}")
# The garbage collector writes to every object that it visits, which would copy
# the shared memory in each node. Imports leave it nothing to collect.
gc.freeze()
