"""Run lock: no two launchers have one run's folder at the same time."""

import contextlib
import fcntl
import os
import pathlib
from collections.abc import Iterator

from slipway.launch.runs import run_folder


@contextlib.contextmanager
def held(folder: run_folder.RunFolder) -> Iterator[None]:
  """Holds a run's folder for as long as this lasts, and leaves no file in it.

  The kernel drops the lock with the process, however it ends. What the process
  starts does not hold it.

  Args:
    folder: of the run; exists.

  Raises:
    ValueError: one line with the process that holds it.
    OSError: the folder can't be opened.
  """
  descriptor = os.open(folder.path, os.O_RDONLY | os.O_CLOEXEC)
  try:
    try:
      fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
      raise ValueError(
        f"run {str(folder.path)!r} still goes on, {_holder(folder.path)}: stop "
        "it, or wait until it has ended"
      ) from error
    except OSError:
      pass  # a network's file system may have no locks: the run needs none
    yield
  finally:
    os.close(descriptor)


def _holder(path: pathlib.Path) -> str:
  """Who holds the lock of a folder: 'in process 123'."""
  inode = str(path.stat().st_ino)
  with open("/proc/locks", encoding="ascii") as file:
    for line in file:
      _, kind, _, _, pid, place, *_ = line.split()
      if kind == "FLOCK" and place.rpartition(":")[2] == inode:
        return f"in process {pid}"
  return "in a process of another container"
