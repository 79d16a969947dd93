"""Tree: finds and measures all processes of a program.

Libraries start processes that outlive their parents or leave the process group.
So each process is found by an inherited environment variable, or by its parent.
"""

import contextlib
import os
import signal
import time
import typing
import uuid

import psutil

_VARIABLE = "SLIPWAY_PEERS_PROGRAM"
_POLL_S = 0.1  # between two checks whether processes have ended
_PERIOD_S = 1.0  # between two measurements
_YOUNG_S = 5.0  # age of a process until which its variables may change


class Usage(typing.NamedTuple):
  """The resources that a program's processes have used.

  Attributes:
    cpu_s: CPU seconds of all processes, including those that have ended.
    processes: number of running processes.
  """

  cpu_s: float
  processes: int


class Tree:
  """All processes of a program that was started with `environment`."""

  def __init__(self):
    """Makes the variables of `environment`; the program starts later."""
    self._value = uuid.uuid4().hex
    # CPU seconds of each process, by its pid and start, which identify it.
    self._cpu_s: dict[tuple[int, float], float] = {}
    self._unrelated: set[tuple[int, float]] = set()
    self._measured_s = 0.0

  @property
  def environment(self) -> dict[str, str]:
    """Environment variables for the program's first process."""
    return {**os.environ, _VARIABLE: self._value}

  def measure(self) -> Usage:
    """Measures the resources used so far.

    Processes that start and end between two calls are missed, so call it every
    second.
    """
    running = self._find_processes()
    for process in running:
      with contextlib.suppress(psutil.Error):
        times = process.cpu_times()
        self._cpu_s[_key(process)] = times.user + times.system
    self._measured_s = time.monotonic()
    return Usage(sum(self._cpu_s.values()), len(running))

  def measure_if_due(self) -> None:
    """Calls `measure` if the last call is more than a second ago."""
    if time.monotonic() - self._measured_s > _PERIOD_S:
      self.measure()

  def measure_pss_mib(self) -> float:
    """Returns the memory (PSS) of all processes, in MiB.

    Shared pages count once. Each process waits for some milliseconds.
    """
    total = 0.0
    for process in self._find_processes():
      with contextlib.suppress(psutil.Error):
        total += process.memory_full_info().pss / 2**20
    return total

  def stop(self, grace_s: float) -> None:
    """Stops all processes, and returns when they have ended.

    The first process's group gets a SIGTERM, and later all get a SIGKILL.

    Args:
      grace_s: seconds between the two signals.
    """
    for process in self._find_processes()[:1]:
      with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(os.getpgid(process.pid), signal.SIGTERM)
    deadline_s = time.monotonic() + grace_s
    while (left := self._find_processes()) and time.monotonic() < deadline_s:
      time.sleep(_POLL_S)
    while left:
      for process in left:
        with contextlib.suppress(psutil.Error):
          process.kill()
      time.sleep(_POLL_S)
      left = self._find_processes()

  def _find_processes(self) -> list[psutil.Process]:
    """Returns the program's running processes, the oldest first."""
    found: dict[int, psutil.Process] = {}
    all_processes = sorted(psutil.process_iter(), key=_started_s)
    for process in all_processes:
      with contextlib.suppress(psutil.Error):
        if process.status() != psutil.STATUS_ZOMBIE and (
          process.ppid() in found or self._has_variable(process)
        ):
          found[process.pid] = process
          self._cpu_s.setdefault(_key(process), 0.0)
    return list(found.values())

  def _has_variable(self, process: psutil.Process) -> bool:
    """Returns whether a process has inherited the program's variable."""
    key = _key(process)
    if key in self._cpu_s:
      return True
    if key in self._unrelated:  # reading the environment costs the most
      return False
    if process.environ().get(_VARIABLE) == self._value:
      return True
    # A process that was just forked still has its parent's environment.
    if time.time() - key[1] > _YOUNG_S:
      self._unrelated.add(key)
    return False


def _started_s(process: psutil.Process) -> float:
  """Returns the time of a process's start; 0 if it has ended."""
  with contextlib.suppress(psutil.Error):
    return process.create_time()
  return 0.0


def _key(process: psutil.Process) -> tuple[int, float]:
  """Returns a process's pid and start time, which identify it."""
  return process.pid, process.create_time()
