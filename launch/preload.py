"""Preload: what the fork server imports once, for all nodes of a machine.

A node that is forked from it comes up in the time of a fork, and shares the
memory of what is imported. Nothing here may run TensorFlow: what it makes for
that, threads above all, does not survive a fork.
"""

import signal

from launch import (  # noqa: F401
  control,  # pyright: ignore[reportUnusedImport]
  evaluator,  # pyright: ignore[reportUnusedImport]
  proxy,  # pyright: ignore[reportUnusedImport]
  replay,  # pyright: ignore[reportUnusedImport]
  trainer,  # pyright: ignore[reportUnusedImport]
  worker,  # pyright: ignore[reportUnusedImport]
)

# Signals to a whole process group are the launcher's to act on.
for _number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
  signal.signal(_number, signal.SIG_IGN)
