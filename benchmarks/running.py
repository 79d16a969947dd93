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

_LOOK_S = 0.02
# Nodes report four times a second: a count that does not rise for longer
# stands still.
STANDSTILL_S = 1.0
_FLOWS_S = 2.0  # without a standstill, and steps flow again
_PATIENCE_S = 90.0


class Look(typing.NamedTuple):
  """One status of the control node.

  Attributes:
    at_s: monotonic seconds of the reply.
    counts: counts of the status; `worker/1` counts the items of that worker
      that the server has confirmed, `items_lost_by_workers` the lost ones when
      a stream broke, `answers` the replies before this one.
    start_up_s: seconds from the command to the first trainer step; None: there
      was none yet.
  """

  at_s: float
  counts: dict[str, int]
  start_up_s: float | None


class Running:
  """A run, its processes and its counts.

  ```python
  with running.started([f"--run_dir={folder}", "--name=a"], path) as run:
    run.watch_until_it_flows()
    at_s = run.kill("worker/1")
    run.watch_until_it_flows()
    seconds = run.flows_again_s("env_steps", at_s)
  ```
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
    self.looks: list[Look] = []

  def watch_until_it_flows(self) -> None:
    """Polls until workers and trainer have made progress for a while.

    Raises:
      RuntimeError: the run has ended, or makes no progress.
    """
    since_s = time.monotonic()
    while not self._flows(since_s):
      self.watch(_LOOK_S)
      if time.monotonic() > since_s + _PATIENCE_S:
        raise RuntimeError(f"{self._path}: no steps for {_PATIENCE_S:.0f} s")

  def watch(self, seconds: float) -> None:
    """Polls the run for some seconds.

    Raises:
      RuntimeError: the run has ended.
    """
    end_s = time.monotonic() + seconds
    while time.monotonic() < end_s:
      if self.launcher.poll() is not None:
        raise RuntimeError(
          f"{self._path} ended with status {self.launcher.returncode}"
        )
      look = self._look()
      if look is not None:
        self.looks.append(look)
      time.sleep(_LOOK_S)

  def kill(self, node: str) -> float:
    """Kills a node such as 'worker/1'; returns the time, monotonic."""
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
    while any(_runs(pid) for pid in self.pids().values()):
      time.sleep(_LOOK_S)
    return time.monotonic() - at_s

  def ended_s(self, since_s: float) -> float:
    """Waits for the end of a run that was stopped.

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
    """Returns the seconds until a count first rose; None: it has not risen."""
    rises = self._rises(count, since_s)
    return rises[0] - since_s if rises else None

  def flows_again_s(self, count: str, since_s: float) -> float:
    """Returns the seconds until a count's last pause ended; 0.0: no pause.

    Args:
      count: a name in `Look.counts`.
      since_s: monotonic seconds from which pauses count.
    """
    edges = [since_s, *self._rises(count, since_s)]
    ends = [b for a, b in itertools.pairwise(edges) if b - a > STANDSTILL_S]
    return max(ends, default=since_s) - since_s

  def grown(self, count: str, since_s: float) -> int:
    """Returns the growth of a count since the last status before a time."""
    before = [look for look in self.looks if look.at_s <= since_s][-1]
    return self.looks[-1].counts[count] - before.counts[count]

  def status(self) -> run_status.RunStatus | None:
    """Polls the control node's status; None: the node is not up."""
    return self._control.poll()

  def pids(self) -> dict[str, int]:
    """Returns the newest process of each node, such as 'worker/1'."""
    said = (self._path / "logs" / "runner").read_text()
    found = re.findall(r"(\S+) is process (\d+)", said)
    return {node: int(pid) for node, pid in found}

  def _flows(self, since_s: float) -> bool:
    now_s = time.monotonic()
    start_s = now_s - _FLOWS_S
    if start_s < since_s:
      return False
    return all(
      b - a <= STANDSTILL_S
      for count in ("env_steps", "trainer_steps")
      for a, b in itertools.pairwise(
        [start_s, *self._rises(count, start_s), now_s]
      )
    )

  def _rises(self, count: str, since_s: float) -> list[float]:
    """Returns the times at which a count grew; decreases are ignored.

    The first status after `since_s` only sets the initial count.
    """
    looks = [look for look in self.looks if look.at_s > since_s]
    return [
      b.at_s
      for a, b in itertools.pairwise(looks)
      if b.counts[count] > a.counts[count]
    ]

  def _look(self) -> Look | None:
    status = self.status()
    if status is None:
      return None
    workers = status.workers
    second = workers.get(1)
    counts = {
      "env_steps": status.env_steps,
      "trainer_steps": status.trainer_steps,
      "items_confirmed": status.items.confirmed,
      "evaluations": status.evaluation.count,
      "env_steps_lost": status.env_steps_lost,
      "trainer_steps_lost": status.trainer_steps_lost,
      "items_lost": status.items.lost,
      "reconnects": status.reconnects,
      "worker/1": (second and second.items_confirmed) or 0,
      "items_lost_by_workers": sum(
        worker.items_lost or 0 for worker in workers.values()
      ),
      "answers": len(self.looks),
    }
    return Look(time.monotonic(), counts, status.start_up_s)


def _runs(pid: int) -> bool:
  try:
    # Whom its orphans are left to may take its time to bury them.
    return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
  except psutil.NoSuchProcess:
    return False


@contextlib.contextmanager
def started(flags: Sequence[str], path: pathlib.Path) -> Iterator[Running]:
  """Starts a run, and kills it if it is alive at the end of the block.

  Args:
    flags: flags of `slipway train`.
    path: path of the run's folder.
  """
  with open(path.with_suffix(".txt"), "a") as file:
    launcher = subprocess.Popen(
      [sys.executable, "-m", "slipway.launch.train", *flags],
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
