"""Attached processes: trainings that end with the process that started them.

`slipway.launch.commands.attached` is the program that they execute.
"""

import os
import subprocess
import sys
import typing
from collections.abc import Sequence

# Write ends of the pipes of this process's trainings.
_write_ends: set[int] = set()


def start(
  flags: Sequence[str], **options: typing.Any
) -> tuple[subprocess.Popen, int]:
  """Starts a training in a process of its own.

  Args:
    flags: flags of `slipway train`.
    **options: further arguments of `subprocess.Popen`.

  Returns:
    The process, and the write end of the pipe whose end of file stops the run.
    The caller calls `close` with it when the process has ended.

  Raises:
    OSError: the process can't be started.
  """
  read_end, write_end = os.pipe()
  _write_ends.add(write_end)
  try:
    process = subprocess.Popen(
      [
        *(
          sys.executable,
          "-m",
          "slipway.launch.commands.attached",
          str(read_end),
        ),
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
    close(write_end)
    raise
  finally:
    os.close(read_end)
  return process, write_end


def close(write_end: int) -> None:
  """Closes the write end of a pipe; has no effect in forked processes.

  Args:
    write_end: the descriptor, which `start` has returned.
  """
  if write_end in _write_ends:
    _write_ends.remove(write_end)
    os.close(write_end)


def _close_all() -> None:
  """Closes the write ends of all pipes.

  Processes that this process forks call it. They would otherwise keep the pipes
  open, and the runs active, after the end of this process.
  """
  for write_end in tuple(_write_ends):
    close(write_end)


os.register_at_fork(after_in_child=_close_all)
