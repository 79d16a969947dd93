"""Descendants: kills and reaps the processes that descend from this process.

An environment, for example, may start processes and not end them.
"""

import contextlib
import ctypes
import gc
import os
import subprocess
import time
from collections.abc import Collection, Iterable
from multiprocessing import popen_fork

import psutil

# Option of prctl(2) by which a process adopts its orphaned descendants.
_PR_SET_CHILD_SUBREAPER = 36
_END_TIMEOUT_S = 5.0  # seconds that killed processes may take to end
# Seconds before a zombie is reaped, in which the code that started the process
# may still wait for it.
_REAP_AFTER_S = 60.0


def adopt(enabled: bool = True) -> None:
  """Sets whether this process adopts its orphaned descendants as children.

  An orphan is a process whose parent has ended. Without adoption, it becomes a
  child of the nearest ancestor that adopts.

  Args:
    enabled: whether to adopt orphans from now on.
  """
  ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, int(enabled), 0, 0, 0)


def kill(processes: Iterable[psutil.Process]) -> list[psutil.Process]:
  """Kills processes and all their descendants, without waiting for their ends.

  Args:
    processes: the processes; ended ones, and those that this user may not
      signal, are skipped.

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


def kill_children(spared: Collection[psutil.Process] = ()) -> None:
  """Kills this process's descendants; waits up to 5 s for their ends.

  Args:
    spared: children that are not killed, nor their descendants.
  """
  children = psutil.Process().children()
  killed = kill(child for child in children if child not in spared)
  psutil.wait_procs(killed, _END_TIMEOUT_S)


def started_pids() -> set[int]:
  """Returns the pids of the children that Python code of this process started.

  All other children are adopted orphans. Python has no list of the children
  that were started, so this function searches the garbage collector's objects
  for handles of processes.
  """
  handles = (subprocess.Popen, popen_fork.Popen)
  return {
    found.pid
    for found in gc.get_objects()
    if issubclass(type(found), handles) and hasattr(found, "pid")
  }


class Reaper:
  """Reaps zombies among the adopted children of this process.

  A zombie is a process that has ended. Its entry in the process table remains
  until its parent waits for it.
  """

  def __init__(self):
    """Starts with no known zombie."""
    self._seen_s: dict[psutil.Process, float] = {}

  def reap(self) -> None:
    """Reaps the zombies that were first seen more than 60 s ago.

    To be called periodically, because each call only sees current zombies.
    """
    now_s = time.monotonic()
    self._seen_s = {
      child: self._seen_s.get(child, now_s)
      for child in psutil.Process().children()
      if _is_zombie(child)
    }
    old = [
      child.pid
      for child, seen_s in self._seen_s.items()
      if now_s - seen_s > _REAP_AFTER_S
    ]
    if old:
      for pid in {*old} - started_pids():
        with contextlib.suppress(ChildProcessError):
          os.waitpid(pid, os.WNOHANG)


def _is_zombie(process: psutil.Process) -> bool:
  """Returns whether a process has ended and was not reaped yet."""
  try:
    return process.status() == psutil.STATUS_ZOMBIE
  except psutil.Error:
    return False
