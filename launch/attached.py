"""Trains for another Python process, and stops in order when that ends.

    python -m slipway.launch.attached DESCRIPTOR FLAG...

DESCRIPTOR is the read end of a pipe that only the other process can write to,
and never does; FLAGs are those of `slipway train`.
"""

import os
import signal
import sys
import threading
from collections.abc import Sequence

from slipway.launch import train


def main(argv: Sequence[str]) -> int:
  """Runs a training; returns its exit status, as `train.main`."""
  program, descriptor, *flags = argv
  threading.Thread(
    target=_stop_at_end_of, args=(int(descriptor),), daemon=True
  ).start()
  return train.main([program, *flags])


def _stop_at_end_of(descriptor: int) -> None:
  os.read(descriptor, 1)  # returns when the other process has ended
  os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
  sys.exit(main(sys.argv))
