"""Run lock: shows that a launcher executes a run, and prevents a second one."""

import contextlib
import fcntl
import os
import pathlib
import socket
import time
from collections.abc import Iterator

from absl import logging

from slipway.launch.runs import run_folder

_POLL_S = 0.05  # seconds between two attempts to take the lock
# Seconds for which an attempt is repeated, as `is_held` takes the lock for a
# moment.
_PATIENCE_S = 0.5
# The same where another machine has held the lock: servers of files release the
# locks of a machine that is lost after their lease time, 90 s by default.
_LEASE_S = 100.0


@contextlib.contextmanager
def held(folder: run_folder.RunFolder, kind: str = "run") -> Iterator[None]:
  """Holds an exclusive lock on a run's folder while the block runs.

  The kernel, or the server of a network file system, releases the lock when the
  process ends for any reason. Programs that this process starts do not inherit
  the lock.

  Args:
    folder: the run's folder, which must exist.
    kind: what the folder belongs to, for the error message.

  Raises:
    ValueError: another process holds the lock, or has just replaced the folder.
    OSError: the folder can't be opened.
  """
  path = folder.path / run_folder.LOCK
  descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
  try:
    _take(descriptor, folder, kind)
    if not _is_current(descriptor, path):
      raise ValueError(
        f"{kind} {str(folder.path)!r} has just been replaced or deleted by "
        "another process, so nothing was done: try again"
      )
    with contextlib.suppress(OSError):  # of a full disk
      os.ftruncate(descriptor, 0)
      owner = f"{os.getpid()} of {socket.gethostname()}"
      os.pwrite(descriptor, owner.encode(), 0)
    yield
  finally:
    os.close(descriptor)


def is_held(folder: run_folder.RunFolder) -> bool:
  """Returns whether a process, here or elsewhere, holds a folder's lock."""
  try:
    descriptor = os.open(
      folder.path / run_folder.LOCK, os.O_RDONLY | os.O_CLOEXEC
    )
  except OSError:
    return False
  try:
    fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
  except BlockingIOError:
    return True
  except OSError:  # a file system without locks
    pass
  finally:
    os.close(descriptor)
  return False


def wait_until_free(folder: run_folder.RunFolder, timeout_s: float) -> None:
  """Waits until no other process holds the lock on a run's folder.

  Args:
    folder: the run's folder, which must exist.
    timeout_s: longest wait in seconds.

  Raises:
    ValueError: another process still holds the lock after that time.
  """
  deadline_s = time.monotonic() + timeout_s
  while is_held(folder):
    if time.monotonic() > deadline_s:
      raise ValueError(_describe(folder, "run"))
    time.sleep(_POLL_S)


def _take(descriptor: int, folder: run_folder.RunFolder, kind: str) -> None:
  """Locks an open file, or raises ValueError if another process holds it."""
  began_s, has_warned = time.monotonic(), False
  while True:
    try:
      fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
      return
    except BlockingIOError as error:
      host = _read_owner(folder).rpartition(" of ")[2]
      is_elsewhere = host not in ("", socket.gethostname())
      patience_s = _LEASE_S if is_elsewhere else _PATIENCE_S
      if time.monotonic() - began_s > patience_s:
        raise ValueError(_describe(folder, kind)) from error
      if is_elsewhere and not has_warned:
        has_warned = True
        logging.warning(
          "waiting up to %.0f s for process %s, which may still execute the %s",
          patience_s,
          _read_owner(folder),
          kind,
        )
    except OSError:
      return  # on a file system without locks, none is held
    time.sleep(_POLL_S)


def _is_current(descriptor: int, path: pathlib.Path) -> bool:
  """Returns whether an open file is still the one at its path."""
  try:
    return os.path.samestat(os.fstat(descriptor), path.stat())
  except FileNotFoundError:
    return False


def _read_owner(folder: run_folder.RunFolder) -> str:
  """Returns the process that has taken the lock last, as '123 of a-host'."""
  try:
    return (folder.path / run_folder.LOCK).read_text("utf-8", "replace")[:100]
  except OSError:
    return ""


def _describe(folder: run_folder.RunFolder, kind: str) -> str:
  """Returns the error of a folder whose lock another process holds."""
  owner = " ".join(_read_owner(folder).split()) or "unknown"
  return (
    f"{kind} {str(folder.path)!r} is still active, process {owner}: stop it "
    "there, or wait until it has ended"
  )
