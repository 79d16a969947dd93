"""Descendants: the processes below this one, such as an environment's."""

import contextlib
import ctypes
import gc
import os
import subprocess
import time
from collections.abc import Iterable
from multiprocessing import popen_fork

import psutil

_PR_SET_CHILD_SUBREAPER = 36
_GONE_WITHIN_S = 5.0
_REAPED_AFTER_S = 60.0


def adopt(adopts: bool = True) -> None:
  """Sets whether orphans below this process become children of this process.

  Otherwise they become those of the next process above it that adopts, at last
  of the system's first one.
  """
  ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, int(adopts), 0, 0, 0)


def kill(processes: Iterable[psutil.Process]) -> list[psutil.Process]:
  """Kills processes and all below them; returns all, parents first."""
  killed = []
  for process in processes:
    try:
      process.suspend()  # it forks no more
      below = process.children()
      process.kill()
    except psutil.Error:  # it has ended, or is another user's, such as sudo
      continue
    killed += [process, *kill(below)]
  return killed


def kill_and_wait(processes: Iterable[psutil.Process]) -> None:
  """Does so, and waits for their end."""
  psutil.wait_procs(kill(processes), _GONE_WITHIN_S)


def started_pids() -> set[int]:
  """Returns the processes that this one started and may wait for.

  All other children are adopted ones.
  """
  handles = (subprocess.Popen, popen_fork.Popen)
  return {
    found.pid
    for found in gc.get_objects()
    if issubclass(type(found), handles) and hasattr(found, "pid")
  }


class Reaper:
  """Removes the zombies among adopted children."""

  def __init__(self, after_s: float = _REAPED_AFTER_S):
    """Removes nothing yet.

    Args:
      after_s: seconds for which a zombie is left to code that waits for it
        without a handle of Python's.
    """
    self._after_s = after_s
    self._seen_s: dict[psutil.Process, float] = {}

  def reap(self) -> None:
    """Removes zombies that earlier calls have seen."""
    now_s = time.monotonic()
    self._seen_s = {
      child: self._seen_s.get(child, now_s)
      for child in psutil.Process().children()
      if _is_zombie(child)
    }
    old = [
      child.pid
      for child, seen_s in self._seen_s.items()
      if now_s - seen_s > self._after_s
    ]
    if old:
      for pid in {*old} - started_pids():
        with contextlib.suppress(ChildProcessError):
          os.waitpid(pid, os.WNOHANG)


def _is_zombie(process: psutil.Process) -> bool:
  try:
    return process.status() == psutil.STATUS_ZOMBIE
  except psutil.Error:
    return False
