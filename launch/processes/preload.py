"""Preload: what the fork server imports once, for all nodes of a machine.

A node that is forked from it comes up in the time of a fork, and shares the
memory of what is imported. Nothing here may run TensorFlow: what it makes for
that, threads above all, does not survive a fork.
"""

import signal

from launch.nodes import (  # noqa: F401
  control,  # pyright: ignore[reportUnusedImport]
  evaluator,  # pyright: ignore[reportUnusedImport]
  proxy,  # pyright: ignore[reportUnusedImport]
  replay,  # pyright: ignore[reportUnusedImport]
  trainer,  # pyright: ignore[reportUnusedImport]
  worker,  # pyright: ignore[reportUnusedImport]
)
from launch.processes import node_process

for _number in node_process.GROUP_SIGNALS:
  signal.signal(_number, signal.SIG_IGN)
