"""Runs a training for another Python process, and stops when it ends.

    python -m slipway.launch.attached DESCRIPTOR FLAG...

DESCRIPTOR is the read end of a pipe, whose write end only the other process
has. Nothing is written to the pipe; its end of file shows that the process has
ended. FLAGs are the flags of `slipway train`.
"""

import os
import signal
import sys
import threading
from collections.abc import Sequence

from slipway.launch import train
from slipway.launch.processes import signals


def main(argv: Sequence[str]) -> int:
  """Runs a training and returns the exit status of `train.main`."""
  program, descriptor, *flags = argv
  threading.Thread(
    target=_stop_when_process_ends, args=(int(descriptor),), daemon=True
  ).start()
  status = train.main([program, *flags])
  # Python resets the handlers when it exits, so a signal then would change the
  # exit status.
  for number in signals.STOP_SIGNALS:
    signal.signal(number, signal.SIG_IGN)
  return status


def _stop_when_process_ends(descriptor: int) -> None:
  """Sends SIGTERM to this process when the other process has ended."""
  os.read(descriptor, 1)  # returns when the other process has ended
  os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
  sys.exit(main(sys.argv))
