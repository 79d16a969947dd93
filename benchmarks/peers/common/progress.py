"""Progress: reports a peer program's progress as one line of JSON per second.

    reporter = progress.Reporter(until=475.0)
    while True:
      ...
      reporter.env_steps += 1
      reporter.updates += 1
      reporter.add_return(21.0)
      if reporter.evaluation_due(2_000):
        reporter.evaluate(play_20_episodes)

It imports the standard library only, since it runs with each peer's packages.
"""

import argparse
import collections
import json
import math
import os
import statistics
import threading
import time
import typing
from collections.abc import Callable, Sequence

EPISODES = 20  # in each mean return, of training or of an evaluation
_PERIOD_S = 1.0


class Reporter:
  """Writes a program's counts to stdout once per second, in its own thread.

  The program's other output goes to stderr. Once mean returns have reached
  `until`, the reporter writes a last line, and the process exits with status 0.

  Attributes:
    env_steps: environment steps so far, of all environments.
    updates: updates of the network so far.
    paused_s: seconds spent in evaluations so far.
  """

  def __init__(self, until: float | None = None, in_a_row: int = 1):
    """Starts the thread that writes.

    Args:
      until: mean return at which the process exits; inf: it never exits; None:
        it never exits, and there are no evaluations.
      in_a_row: evaluations in a row that must reach it, or as many times 20
        training episodes.
    """
    self.env_steps = 0
    self.updates = 0
    self.paused_s = 0.0
    self._evaluates = until is not None
    self._until = math.inf if until is None else until
    self._in_a_row = in_a_row
    # Evaluations in a row that have reached the target, and training episodes
    # in a row after which the mean of the last 20 was at the target.
    self._evaluations_at_target = self._episodes_at_target = 0
    self._returns: collections.deque[float] = collections.deque(maxlen=EPISODES)
    self._evaluated: float | None = None
    self._due_at = 0  # environment steps at which the last one was due
    self._evaluated_at: int | None = None
    self._out = os.dup(1)
    os.dup2(2, 1)
    threading.Thread(target=self._write_each_period, daemon=True).start()

  def add_return(self, value: float) -> None:
    """Adds a training episode's undiscounted return; may exit the process."""
    self._returns.append(float(value))
    mean = self._mean()
    if mean is None or mean < self._until:
      self._episodes_at_target = 0
      return
    self._episodes_at_target += 1
    if self._episodes_at_target > (self._in_a_row - 1) * EPISODES:
      self._exit()

  def evaluation_due(self, period: int) -> bool:
    """Returns whether a greedy evaluation is due, and counts it as started.

    Without `until`, no evaluation is ever due.

    Args:
      period: environment steps between two evaluations.
    """
    if not self._evaluates or self.env_steps - self._due_at < period:
      return False
    self._due_at = self.env_steps
    return True

  def evaluate(self, play: Callable[[], Sequence[float]]) -> None:
    """Plays greedy episodes, writes a line, and adds to `paused_s`.

    The process exits if their mean return, and those of enough evaluations
    before, have reached the target.

    Args:
      play: function that plays greedy episodes and returns their returns.
    """
    start_s = time.monotonic()
    returns = play()
    self.paused_s += time.monotonic() - start_s
    if returns:
      is_at_target = self._set_evaluated(returns) >= self._until
      self._evaluations_at_target = (
        self._evaluations_at_target + 1 if is_at_target else 0
      )
      if self._evaluations_at_target == self._in_a_row:
        self._exit()
      self._write(reached=False)

  def end(self, returns: Sequence[float]) -> None:
    """Reports greedy episodes that were played at the end; exits the process.

    Args:
      returns: returns of the episodes.
    """
    self._set_evaluated(returns)
    self._exit()

  def _set_evaluated(self, returns: Sequence[float]) -> float:
    """Keeps the mean return of an evaluation for the next lines; returns it."""
    self._evaluated = statistics.fmean(returns)
    self._evaluated_at = self.env_steps
    return self._evaluated

  def _mean(self) -> float | None:
    if len(self._returns) < EPISODES:
      return None
    return statistics.fmean(self._returns)

  def _exit(self) -> None:
    self._write(reached=True)
    os._exit(0)  # without waiting for threads and processes of the library

  def _write_each_period(self) -> None:
    while True:
      time.sleep(_PERIOD_S)
      self._write(reached=False)

  def _write(self, reached: bool) -> None:
    write_line(
      self._out,
      env_steps=self.env_steps,
      updates=self.updates,
      mean_return=self._mean(),
      evaluated=self._evaluated,
      evaluated_at=self._evaluated_at,
      paused_s=self.paused_s,
      reached=reached,
    )


def write_line(
  out: int,
  env_steps: int,
  updates: int,
  mean_return: float | None,
  evaluated: float | None,
  evaluated_at: int | None,
  paused_s: float,
  reached: bool,
  at_s: float | None = None,
) -> None:
  """Writes one line of progress as JSON.

  Args:
    out: file descriptor to which the line is written.
    env_steps: environment steps so far.
    updates: updates so far.
    mean_return: mean return of the last 20 training episodes; None: there are
      fewer.
    evaluated: mean return of the last greedy evaluation; None: there was none.
    evaluated_at: environment steps of its policy; None: they are unknown.
    paused_s: seconds spent in evaluations so far.
    reached: whether a mean return has reached the program's target.
    at_s: time of these values on the monotonic clock, in seconds; None: now.
  """
  line = {
    "at_s": time.monotonic() if at_s is None else at_s,
    "env_steps": int(env_steps),
    "updates": int(updates),
    "return": mean_return,
    "evaluated": evaluated,
    "evaluated_at": evaluated_at,
    "paused_s": paused_s,
    "reached": reached,
  }
  # One system call, so that the lines of two threads never mix.
  os.write(out, (json.dumps(line) + "\n").encode())


def parse_arguments(
  variants: Sequence[str], arguments: Sequence[str] | None = None
) -> typing.Any:
  """Parses a peer program's flags.

  Args:
    variants: variants of the program; the first is the default.
    arguments: arguments of the command line; None: those of this process.

  Returns:
    The flags as attributes: task, seed, until (None: no target), in_a_row,
    steps (None: no limit), variant.
  """
  parser = argparse.ArgumentParser()
  parser.add_argument("--task", required=True)
  parser.add_argument("--seed", type=int, default=1)
  parser.add_argument("--until", type=float)
  parser.add_argument("--in_a_row", type=int, default=1)
  parser.add_argument("--steps", type=int)
  parser.add_argument("--variant", choices=variants, default=variants[0])
  return parser.parse_args(arguments)
