"""Run lock: prevents two launchers from using one run's folder."""

import contextlib
import fcntl
import os
import pathlib
from collections.abc import Iterator

from slipway.launch.runs import run_folder


@contextlib.contextmanager
def held(folder: run_folder.RunFolder, kind: str = "run") -> Iterator[None]:
  """Holds an exclusive lock on a run's folder while the block runs.

  The lock needs no file, and the kernel releases it when the process ends.
  Programs that this process starts do not inherit the lock.

  Args:
    folder: the run's folder, which must exist.
    kind: what the folder belongs to, for the error message.

  Raises:
    ValueError: another process holds the lock.
    OSError: the folder can't be opened.
  """
  descriptor = os.open(folder.path, os.O_RDONLY | os.O_CLOEXEC)
  try:
    try:
      fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
      raise ValueError(
        f"{kind} {str(folder.path)!r} is still active, "
        f"{_describe_holder(folder.path)}: stop it, or wait until it has ended"
      ) from error
    except OSError:
      pass  # on a network file system without locks, none is held
    yield
  finally:
    os.close(descriptor)


def _describe_holder(path: pathlib.Path) -> str:
  """Returns a text about the process that locks a folder: 'in process 123'."""
  inode = str(path.stat().st_ino)
  with open("/proc/locks", encoding="ascii") as file:
    for line in file:
      # The last part of 'device:device:inode' is the number of the locked file.
      _, kind, _, _, pid, file_id, *_ = line.split()
      if kind == "FLOCK" and file_id.rpartition(":")[2] == inode:
        return f"in process {pid}"
  return "in a process of another container"
