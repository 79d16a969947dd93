"""Attached processes: trainings that end with the process that started them.

`slipway.launch.commands.attached` is the program that they execute.
"""

import os
import signal
import subprocess
import sys
import typing
from collections.abc import Iterable, Sequence

# Write ends of the pipes of this process's trainings.
_write_ends: set[int] = set()
_PREFIX = "train: "  # of the lines in which `slipway train` explains its end


class AttachedProcess(subprocess.Popen):
  """A process `slipway train`, whose run stops when this process ends.

  `poll` or `detach` is to be called once it has ended.
  """

  def __init__(self, flags: Sequence[str], **options: typing.Any):
    """Starts the process.

    Args:
      flags: flags of `slipway train`.
      **options: further arguments of `subprocess.Popen`.

    Raises:
      OSError: the process can't be started.
    """
    # At the end of file of the read end, the run stops.
    read_end, self._write_end = os.pipe()
    _write_ends.add(self._write_end)
    program = "slipway.launch.commands.attached"
    # The run finds user modules where this process finds them.
    path = os.pathsep.join(path or os.getcwd() for path in sys.path)
    try:
      super().__init__(
        [sys.executable, "-P", "-m", program, str(read_end), *flags],
        stdin=subprocess.DEVNULL,
        pass_fds=(read_end,),
        env={**os.environ, "PYTHONPATH": path},
        **options,
      )
    except BaseException:
      self.detach()
      raise
    finally:
      os.close(read_end)

  def poll(self) -> int | None:
    """Returns the exit status, or None while the process lasts."""
    if super().poll() is not None:
      self.detach()
    return self.returncode

  def detach(self) -> None:
    """Closes the pipe; has no effect in forked processes."""
    _close(self._write_end)

  def explain_end(self, lines: Iterable[str]) -> str:
    """Returns why an ended training has failed, or '' if it has not.

    Args:
      lines: the last lines of its output.
    """
    status = self.returncode
    if status >= 0:
      errors = [*filter(is_explanation, lines)] or [*lines]
      last = errors[-1].removeprefix(_PREFIX) if errors else "no output"
      return last if status else ""
    text = f"ended by signal {-status} ({signal.strsignal(-status)})"
    if status == -signal.SIGKILL:
      text += ", perhaps because the machine's memory had run out"
    return text


def is_explanation(line: str) -> bool:
  """Returns whether a line of the output explains the end of a training."""
  return line.startswith(_PREFIX)


def _close(write_end: int) -> None:
  """Closes the write end of a pipe, if it is open."""
  if write_end in _write_ends:
    _write_ends.remove(write_end)
    os.close(write_end)


def _close_all() -> None:
  """Closes all pipes; a forked process would keep the runs active."""
  for write_end in tuple(_write_ends):
    _close(write_end)


os.register_at_fork(after_in_child=_close_all)
