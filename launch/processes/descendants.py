"""Descendants: adopts and kills the processes that this process started.

Environments, for example, may start processes, and leave them behind.
"""

import contextlib
import ctypes
import gc
import os
import subprocess
import time
from collections.abc import Iterable
from multiprocessing import popen_fork

import psutil

_PR_SET_CHILD_SUBREAPER = 36  # of prctl(2)
_END_TIMEOUT_S = 5.0
_REAPED_AFTER_S = 60.0


def adopt(adopts: bool = True) -> None:
  """Sets whether orphaned descendants become children of this process.

  If it does not adopt them, they become children of the nearest ancestor that
  does.
  """
  ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, int(adopts), 0, 0, 0)


def kill(processes: Iterable[psutil.Process]) -> list[psutil.Process]:
  """Kills processes and all their descendants.

  Returns:
    All killed processes, with parents before their children.
  """
  killed = []
  for process in processes:
    try:
      process.suspend()  # so that it cannot fork
      children = process.children()
      process.kill()
    except psutil.Error:
      # The process has ended, or belongs to another user, such as sudo's.
      continue
    killed += [process, *kill(children)]
  return killed


def kill_and_wait(processes: Iterable[psutil.Process]) -> None:
  """Kills processes and all their descendants, and waits up to 5 s for them."""
  psutil.wait_procs(kill(processes), _END_TIMEOUT_S)


def started_pids() -> set[int]:
  """Returns the pids of children that this process started itself.

  All other children are adopted. Python keeps no list of the started ones, so
  the garbage collector's objects are searched for handles of processes.
  """
  handles = (subprocess.Popen, popen_fork.Popen)
  return {
    found.pid
    for found in gc.get_objects()
    if issubclass(type(found), handles) and hasattr(found, "pid")
  }


class Reaper:
  """Removes zombies among the adopted children of this process.

  A zombie is a process that has ended, and keeps its entry in the process table
  until its parent waits for it.
  """

  def __init__(self, after_s: float = _REAPED_AFTER_S):
    """Starts with no known zombie.

    Args:
      after_s: seconds before a zombie is removed, in which other code of this
        process may wait for it by its pid.
    """
    self._after_s = after_s
    self._seen_s: dict[psutil.Process, float] = {}

  def reap(self) -> None:
    """Removes the zombies that have been known for long enough."""
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
