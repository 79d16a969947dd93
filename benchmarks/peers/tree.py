"""Tree: finds and measures all processes of a program.

Libraries start processes that outlive their parents or leave the process group.
So each is found by an inherited environment variable, or by its parent.
"""

import contextlib
import os
import signal
import time
import typing
import uuid

import psutil

_VARIABLE = "SLIPWAY_PEERS_PROGRAM"
_LOOK_S = 0.1
_PERIOD_S = 1.0
_YOUNG_S = 5.0


class Look(typing.NamedTuple):
  """Resources that a process tree has used.

  Attributes:
    cpu_s: CPU seconds of all its processes, including those that have ended.
    processes: number of present processes.
  """

  cpu_s: float
  processes: int


class Tree:
  """The processes that were started with the variables of `environment`."""

  def __init__(self):
    """Starts without processes."""
    self._value = uuid.uuid4().hex
    # By pid and start, which together name a process: its CPU seconds.
    self._cpu_s: dict[tuple[int, float], float] = {}
    self._strangers: set[tuple[int, float]] = set()
    self._looked_s = 0.0

  @property
  def environment(self) -> dict[str, str]:
    """Environment variables for the program's first process."""
    return {**os.environ, _VARIABLE: self._value}

  def look(self) -> Look:
    """Sums the CPU time; call it each second to see short-lived processes."""
    here = self._processes()
    for process in here:
      with contextlib.suppress(psutil.Error):
        times = process.cpu_times()
        self._cpu_s[_key(process)] = times.user + times.system
    self._looked_s = time.monotonic()
    return Look(sum(self._cpu_s.values()), len(here))

  def look_again(self) -> None:
    """Calls `look` if the last call is some time ago."""
    if time.monotonic() - self._looked_s > _PERIOD_S:
      self.look()

  def pss_mib(self) -> float:
    """Returns the memory of all processes, in which shared pages count once.

    It costs milliseconds per process, during which the process waits.
    """
    total = 0.0
    for process in self._processes():
      with contextlib.suppress(psutil.Error):
        total += process.memory_full_info().pss / 2**20
    return total

  def end(self, grace_s: float) -> None:
    """Stops all processes, by SIGTERM to the first, later by SIGKILL to all.

    Args:
      grace_s: seconds before the SIGKILL.
    """
    for process in self._processes()[:1]:
      with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(os.getpgid(process.pid), signal.SIGTERM)
    deadline_s = time.monotonic() + grace_s
    while (left := self._processes()) and time.monotonic() < deadline_s:
      time.sleep(_LOOK_S)
    while left:
      for process in left:
        with contextlib.suppress(psutil.Error):
          process.kill()
      time.sleep(_LOOK_S)
      left = self._processes()

  def _processes(self) -> list[psutil.Process]:
    """Returns the present processes, the oldest first."""
    found: dict[int, psutil.Process] = {}
    everyone = sorted(psutil.process_iter(), key=_started_s)
    for process in everyone:
      with contextlib.suppress(psutil.Error):
        if process.status() != psutil.STATUS_ZOMBIE and (
          process.ppid() in found or self._knows(process)
        ):
          found[process.pid] = process
          self._cpu_s.setdefault(_key(process), 0.0)
    return list(found.values())

  def _knows(self, process: psutil.Process) -> bool:
    key = _key(process)
    if key in self._cpu_s:
      return True
    if key in self._strangers:  # reading environments costs the most
      return False
    if process.environ().get(_VARIABLE) == self._value:
      return True
    # A process that was only just forked still shows its parent's.
    if time.time() - key[1] > _YOUNG_S:
      self._strangers.add(key)
    return False


def _started_s(process: psutil.Process) -> float:
  with contextlib.suppress(psutil.Error):
    return process.create_time()
  return 0.0


def _key(process: psutil.Process) -> tuple[int, float]:
  return process.pid, process.create_time()
