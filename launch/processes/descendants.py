"""Descendants: kills what this process, or a run's nodes, have started.

An environment, for example, may start processes and not end them.
"""

import contextlib
import ctypes
import os
import time
from collections.abc import Collection, Iterable

import psutil
from absl import logging

# Options of prctl(2) by which a process adopts its orphaned descendants, and
# by which the kernel sends it a signal when its parent ends.
_PR_SET_CHILD_SUBREAPER, _PR_SET_PDEATHSIG = 36, 1
# Environment variables with the marks of a run's fork server and of a node's
# process, which all processes that they start inherit.
RUN_VARIABLE, NODE_VARIABLE = "SLIPWAY_RUN", "SLIPWAY_NODE"
_END_TIMEOUT_S = 5.0  # seconds that killed processes may take to end


def adopt(enabled: bool = True) -> None:
  """Sets whether this process adopts its orphaned descendants as children.

  An orphan is a process whose parent has ended. Without adoption, it becomes a
  child of the nearest ancestor that adopts.
  """
  ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, int(enabled), 0, 0, 0)


def end_with_parent(number: int) -> None:
  """Makes the kernel send this process a signal when its parent has ended."""
  ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, number, 0, 0, 0)


def kill_children(spared: Collection[psutil.Process] = ()) -> None:
  """Kills this process's descendants; waits up to 5 s for their ends.

  Args:
    spared: children that are not killed, nor their descendants.
  """
  children = psutil.Process().children()
  killed = kill(child for child in children if child not in spared)
  psutil.wait_procs(killed, _END_TIMEOUT_S)


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


def kill_marked(marks: Collection[str], sessions: Collection[int]) -> None:
  """Kills all processes of ended nodes; waits up to 5 s for their ends.

  A process that a node has forked is in the node's session, and one that it has
  executed has the node's mark in its environment, unless it has left both.

  Args:
    marks: values of environment variables, each of which identifies a node's
      process, or a run's.
    sessions: pids of the nodes' processes, which are also their session ids.
  """
  end_s = time.monotonic() + _END_TIMEOUT_S
  while left := [x for x in psutil.process_iter() if _is(x, marks, sessions)]:
    if time.monotonic() > end_s:
      logging.error(
        "processes %s that nodes have started do not end, and are left",
        [process.pid for process in left],
      )
      return
    for process in left:
      with contextlib.suppress(psutil.Error):  # it has ended, or is sudo's
        process.kill()
    # Repeated, as they may have forked others meanwhile.
    psutil.wait_procs(left, end_s - time.monotonic())


def _is(
  process: psutil.Process, marks: Collection[str], sessions: Collection[int]
) -> bool:
  """Returns whether a process, other than this one, has a mark or session."""
  try:
    if process.pid == os.getpid() or process.status() == psutil.STATUS_ZOMBIE:
      return False
    return (
      process.pid in sessions
      or os.getsid(process.pid) in sessions
      or not set(process.environ().values()).isdisjoint(marks)
    )
  except (psutil.Error, OSError):  # it has ended, or belongs to another user
    return False
