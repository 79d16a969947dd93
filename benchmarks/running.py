"""Running: a run of the program that is watched and killed from outside."""

import contextlib
import itertools
import os
import pathlib
import re
import signal
import subprocess
import sys
import time
import typing
from collections.abc import Iterator, Sequence

import psutil

from benchmarks import control_status, machine
from slipway.launch.runs import run_folder, run_status

_POLL_S = 0.02
# A count that does not rise for longer is paused: nodes report four times a
# second.
PAUSE_S = 1.0
_PROGRESS_S = 2.0  # without a pause, for steady progress
_PATIENCE_S = 90.0


class Status(typing.NamedTuple):
  """Values of one status of a run.

  Attributes:
    at_s: monotonic seconds at which the status arrived.
    counts: counts of the status by name. `worker/1` is the number of that
      worker's confirmed items, and `answers` that of earlier statuses.
    start_up_s: seconds from the command to the first trainer step; None: there
      was none yet.
  """

  at_s: float
  counts: dict[str, int]
  start_up_s: float | None


class Running:
  """A run of `slipway train` that is polled, and whose processes can be killed.

  ```python
  with running.start_run([f"--run_dir={folder}", "--name=a"], path) as run:
    run.watch_until_progress()
    at_s = run.kill("worker/1")
    run.watch_until_progress()
    seconds = run.pause_end_s("env_steps", at_s)
  ```

  Attributes:
    launcher: process of the launcher.
    began_s: monotonic seconds of the run's start.
    statuses: all polled statuses, the oldest first.
  """

  def __init__(self, launcher: subprocess.Popen, path: pathlib.Path):
    """Keeps the arguments; does not poll yet.

    Args:
      launcher: process of the launcher.
      path: path of the run's folder.
    """
    self.launcher = launcher
    self._path = path
    self._control = control_status.ControlStatus(run_folder.RunFolder(path))
    self.began_s = time.monotonic()
    self.statuses: list[Status] = []

  def watch_until_progress(self) -> None:
    """Polls the run until environment and trainer steps advance without pauses.

    Raises:
      RuntimeError: the run has ended, or makes no progress.
    """
    since_s = time.monotonic()
    while not self._has_steady_progress(since_s):
      self.watch(_POLL_S)
      if time.monotonic() > since_s + _PATIENCE_S:
        raise RuntimeError(f"{self._path}: no steps for {_PATIENCE_S:.0f} s")

  def watch(self, seconds: float) -> None:
    """Polls the run for some seconds, and keeps the statuses.

    Raises:
      RuntimeError: the run has ended.
    """
    end_s = time.monotonic() + seconds
    while time.monotonic() < end_s:
      if self.launcher.poll() is not None:
        raise RuntimeError(
          f"{self._path} ended with status {self.launcher.returncode}"
        )
      status = self._poll()
      if status is not None:
        self.statuses.append(status)
      time.sleep(_POLL_S)

  def kill(self, node: str) -> float:
    """Kills a node such as 'worker/1'; returns the monotonic time."""
    pid = self.pids()[node]
    at_s = time.monotonic()
    os.kill(pid, signal.SIGKILL)
    return at_s

  def kill_launcher(self) -> float:
    """Kills the launcher, and waits until its nodes have ended.

    Returns:
      Seconds until the last node ended.
    """
    at_s = time.monotonic()
    self.launcher.kill()
    self.launcher.wait()
    while any(_is_alive(pid) for pid in self.pids().values()):
      time.sleep(_POLL_S)
    return time.monotonic() - at_s

  def wait_for_end(self, since_s: float) -> float:
    """Waits for the end of a run after a stop command.

    Args:
      since_s: monotonic seconds of the stop command.

    Returns:
      Seconds from the stop command to the end.

    Raises:
      RuntimeError: the run failed.
    """
    if self.launcher.wait(_PATIENCE_S):
      raise RuntimeError(f"{self._path} failed after the stop command")
    return time.monotonic() - since_s

  def first_rise_s(self, count: str, since_s: float) -> float | None:
    """Returns the seconds from a time until a count first rose.

    A count that falls, as the run is resumed, must rise after that.

    Args:
      count: a name in `Status.counts`.
      since_s: monotonic seconds of the time.

    Returns:
      Seconds; None if the count has not risen.
    """
    after = self._statuses_after(since_s)
    falls = [
      b.at_s
      for a, b in itertools.pairwise(after)
      if b.counts[count] < a.counts[count]
    ]
    rises = self._rises(count, max([since_s, *falls]))
    return rises[0] - since_s if rises else None

  def pause_end_s(self, count: str, since_s: float) -> float:
    """Returns the seconds from a time until a count's last pause ended.

    Args:
      count: a name in `Status.counts`.
      since_s: monotonic seconds of the time; earlier pauses are ignored.

    Returns:
      Seconds; 0.0 if the count has not paused.
    """
    edges = [since_s, *self._rises(count, since_s)]
    ends = [b for a, b in itertools.pairwise(edges) if b - a > PAUSE_S]
    return max(ends, default=since_s) - since_s

  def growth_since(self, count: str, since_s: float) -> int:
    """Returns the growth of a count since the last status before a time.

    Args:
      count: a name in `Status.counts`.
      since_s: monotonic seconds of the time.
    """
    before = self._last_count(count, since_s)
    return self.statuses[-1].counts[count] - before

  def fall_since(self, count: str, since_s: float) -> int:
    """Returns by how much a count fell back at most since a time, as above."""
    after = [x.counts[count] for x in self._statuses_after(since_s)]
    return max(0, self._last_count(count, since_s) - min(after))

  def status(self) -> run_status.RunStatus | None:
    """Polls the run's status; None: the launcher is not up."""
    return self._control.poll()

  def pids(self) -> dict[str, int]:
    """Returns the process ids of the newest nodes by name, as 'worker/1'."""
    log = (self._path / "logs" / "runner").read_text()
    found = re.findall(r"(\S+) is process (\d+)", log)
    return {node: int(pid) for node, pid in found}

  def _has_steady_progress(self, since_s: float) -> bool:
    """Returns whether steps have advanced without a pause for some seconds."""
    now_s = time.monotonic()
    start_s = now_s - _PROGRESS_S
    if start_s < since_s:
      return False
    return all(
      b - a <= PAUSE_S
      for count in ("env_steps", "trainer_steps")
      for a, b in itertools.pairwise(
        [start_s, *self._rises(count, start_s), now_s]
      )
    )

  def _rises(self, count: str, since_s: float) -> list[float]:
    """Returns the times at which a count grew; decreases are ignored.

    The first status after `since_s` only sets the initial count.
    """
    return [
      b.at_s
      for a, b in itertools.pairwise(self._statuses_after(since_s))
      if b.counts[count] > a.counts[count]
    ]

  def _statuses_after(self, since_s: float) -> list[Status]:
    """Returns the statuses after a time."""
    return [status for status in self.statuses if status.at_s > since_s]

  def _last_count(self, count: str, until_s: float) -> int:
    """Returns a count in the last status up to a time."""
    return [x for x in self.statuses if x.at_s <= until_s][-1].counts[count]

  def _poll(self) -> Status | None:
    """Polls the run for a `Status`; None: the launcher is not up."""
    status = self.status()
    if status is None:
      return None
    second = status.workers.get(1)
    counts = {
      "env_steps": status.env_steps,
      "trainer_steps": status.trainer_steps,
      "items_confirmed": status.items_confirmed,
      "evaluations": status.evaluation.count,
      "items_lost": status.items_lost,
      "reconnects": status.reconnects,
      "worker/1": (second and second.items_confirmed) or 0,
      "answers": len(self.statuses),
    }
    return Status(time.monotonic(), counts, status.start_up_s)


def _is_alive(pid: int) -> bool:
  """Returns whether a process runs and is not a zombie."""
  try:
    # The process that inherits orphans may reap them late.
    return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
  except psutil.NoSuchProcess:
    return False


@contextlib.contextmanager
def start_run(flags: Sequence[str], path: pathlib.Path) -> Iterator[Running]:
  """Starts a run, and kills its launcher at the end of the block.

  Args:
    flags: flags of `slipway train`.
    path: path of the run's folder.

  Yields:
    The run.
  """
  with open(path.with_suffix(".txt"), "a") as file:
    launcher = subprocess.Popen(
      [sys.executable, "-m", "slipway.launch.commands.train", *flags],
      cwd=machine.ROOT,
      stdout=file,
      stderr=subprocess.STDOUT,
    )
    run = Running(launcher, path)
    try:
      yield run
    finally:
      launcher.kill()
      launcher.wait()
