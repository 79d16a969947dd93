"""Runs a training for another process, and stops it if that process ends.

    python -m slipway.launch.commands.attached DESCRIPTOR FLAG...

`slipway.start` starts this program in a process of its own. DESCRIPTOR is the
read end of a pipe, whose write end only the starting process has. Nothing is
written to the pipe; its end of file shows that the starting process has ended.
FLAGs are the flags of `slipway train`.
"""

import os
import signal
import sys
import threading
from collections.abc import Sequence

from slipway.launch.commands import train
from slipway.launch.display import standard_streams
from slipway.launch.processes import signals


def main(argv: Sequence[str]) -> int:
  """Runs a training.

  Args:
    argv: the program's name, the pipe's descriptor, and the training's flags.

  Returns:
    Exit status of `train.main`.
  """
  program, descriptor, *flags = argv
  # Ray's processes block SIGINT, and so do those that they start.
  signal.pthread_sigmask(signal.SIG_UNBLOCK, signals.STOP_SIGNALS)
  threading.Thread(
    target=_stop_when_process_ends, args=(int(descriptor),), daemon=True
  ).start()
  return train.main([program, *flags])


def _stop_when_process_ends(descriptor: int) -> None:
  """Sends SIGTERM to this process when the starting process has ended."""
  os.read(descriptor, 1)  # returns when the starting process has ended
  os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
  # At once, so that neither threads that an environment has left behind nor a
  # signal can change the end.
  standard_streams.exit_process(main(sys.argv))
