"""Descendants: the processes below this one, such as an environment's."""

import ctypes
from collections.abc import Iterable

import psutil

_PR_SET_CHILD_SUBREAPER = 36
_GONE_WITHIN_S = 5.0


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
    except psutil.NoSuchProcess:
      continue
    killed += [process, *kill(below)]
  return killed


def kill_and_wait(processes: Iterable[psutil.Process]) -> None:
  """Does so, and waits for their end."""
  psutil.wait_procs(kill(processes), _GONE_WITHIN_S)
