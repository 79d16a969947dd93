"""Attached processes: trainings that end with the process that started them.

`slipway.launch.attached` is the program that they execute.
"""

import os
import subprocess
import sys
import typing
from collections.abc import Sequence


def start(
  flags: Sequence[str], **options: typing.Any
) -> tuple[subprocess.Popen, int]:
  """Starts a training in a process of its own.

  Args:
    flags: flags of `slipway train`.
    **options: further arguments of `subprocess.Popen`.

  Returns:
    The process, and the write end of the pipe whose end of file stops the run.
    The caller closes it when the process has ended.

  Raises:
    OSError: the process can't be started.
  """
  read_end, write_end = os.pipe()
  try:
    process = subprocess.Popen(
      [
        *(sys.executable, "-m", "slipway.launch.attached", str(read_end)),
        *flags,
      ],
      stdin=subprocess.DEVNULL,
      pass_fds=(read_end,),
      # The run finds user modules where the caller finds them.
      env={
        **os.environ,
        "PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path),
      },
      **options,
    )
  except BaseException:
    os.close(write_end)
    raise
  finally:
    os.close(read_end)
  return process, write_end
