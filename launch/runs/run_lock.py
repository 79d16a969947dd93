"""Run lock: prevents two launchers from using one run's folder."""

import contextlib
import fcntl
import os
import pathlib
import time
from collections.abc import Iterator

from slipway.launch.runs import run_folder

_POLL_S = 0.2  # seconds between two attempts to take the lock


@contextlib.contextmanager
def held(folder: run_folder.RunFolder, kind: str = "run") -> Iterator[None]:
  """Holds an exclusive lock on a run's folder while the block runs.

  The lock needs no file, and the kernel releases it when the process ends.
  Programs that this process starts do not inherit the lock.

  Args:
    folder: the run's folder, which must exist.
    kind: what the folder belongs to, for the error message.

  Raises:
    ValueError: another process holds the lock, or has just replaced the folder.
    OSError: the folder can't be opened.
  """
  descriptor = os.open(folder.path, os.O_RDONLY | os.O_CLOEXEC)
  try:
    try:
      fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
      raise ValueError(
        f"{kind} {str(folder.path)!r} is still active, "
        f"{_describe_holder(folder)}: stop it, or wait until it has ended"
      ) from error
    except OSError:
      pass  # on a network file system without locks, none is held
    if not _is_current(descriptor, folder.path):
      raise ValueError(
        f"{kind} {str(folder.path)!r} has just been replaced or deleted by "
        "another process, so nothing was done: try again"
      )
    yield
  finally:
    os.close(descriptor)


def wait_until_free(folder: run_folder.RunFolder, timeout_s: float) -> None:
  """Waits until no other process holds the lock on a run's folder.

  Args:
    folder: the run's folder, which must exist.
    timeout_s: longest wait in seconds.

  Raises:
    ValueError: another process still holds the lock after that time.
    OSError: the folder can't be opened.
  """
  deadline_s = time.monotonic() + timeout_s
  while True:
    try:
      with held(folder):
        return
    except ValueError:
      if time.monotonic() > deadline_s:
        raise
    time.sleep(_POLL_S)


def list_holders(folder: run_folder.RunFolder) -> list[int]:
  """Returns the pids of the processes that hold the lock on a run's folder.

  It is empty if no process of this container holds the lock, or if the folder
  is on a network file system without locks. Folders of several file systems may
  have the same inode number, so the list may contain other processes, too.

  Args:
    folder: the run's folder, which must exist.

  Raises:
    OSError: the folder can't be read.
  """
  inode = str(folder.path.stat().st_ino)
  holders = []
  with open("/proc/locks", encoding="ascii") as file:
    for line in file:
      # A process that waits for a lock has a line with '->' in second place.
      if " -> " in line:
        continue
      # The last part of 'device:device:inode' is the number of the locked file.
      _, kind, _, _, pid, file_id, *_ = line.split()
      if kind == "FLOCK" and file_id.rpartition(":")[2] == inode:
        holders.append(int(pid))
  return holders


def _is_current(descriptor: int, path: pathlib.Path) -> bool:
  """Returns whether an open folder is still the one at its path."""
  try:
    return os.path.samestat(os.fstat(descriptor), path.stat())
  except FileNotFoundError:
    return False


def _describe_holder(folder: run_folder.RunFolder) -> str:
  """Returns a text about the process that locks a folder: 'in process 123'."""
  holders = list_holders(folder)
  if not holders:
    return "in a process of another container"
  return f"in process {holders[0]}"
