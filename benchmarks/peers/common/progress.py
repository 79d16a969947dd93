"""Progress: reports a program's progress as one line of JSON per second.

    told = progress.Progress(until=475.0)
    while True:
      ...
      told.env_steps += 1
      told.updates += 1
      told.add_return(21.0)
      if told.evaluation_due(2_000):
        told.evaluate(play_20_episodes)

It imports the standard library only, since it runs with each peer's packages.
"""

import argparse
import collections
import json
import os
import statistics
import threading
import time
import typing
from collections.abc import Callable, Sequence

EPISODES = 20  # of a mean, of training as of an evaluation
_PERIOD_S = 1.0


class Progress:
  """Counts of a program, which a background thread reports.

  Other output of the program is sent to stderr. Once the mean return reaches
  `until`, it reports a last line, and the process exits with status 0.

  Attributes:
    env_steps: environment steps so far, of all environments.
    updates: updates of the network so far.
    paused_s: seconds spent in evaluations.
  """

  def __init__(self, until: float | None = None):
    """Starts to report.

    Args:
      until: mean return at which the program ends; None: it does not end.
    """
    self.env_steps = 0
    self.updates = 0
    self.paused_s = 0.0
    self._until = until
    self._returns: collections.deque[float] = collections.deque(maxlen=EPISODES)
    self._evaluated: float | None = None
    self._evaluated_at = 0
    self._out = os.dup(1)
    os.dup2(2, 1)
    threading.Thread(target=self._tell, daemon=True).start()

  def add_return(self, value: float) -> None:
    """Adds the undiscounted return of a completed training episode."""
    self._returns.append(float(value))
    if self._mean() is not None:
      self._end_at(self._mean())

  def evaluation_due(self, period: int) -> bool:
    """Returns whether a greedy evaluation is due.

    Args:
      period: environment steps between evaluations; no effect without `until`.
    """
    if self._until is None or self.env_steps - self._evaluated_at < period:
      return False
    self._evaluated_at = self.env_steps
    return True

  def evaluate(self, play: Callable[[], Sequence[float]]) -> None:
    """Plays greedy episodes, whose time does not count as learning time.

    Args:
      play: function that plays episodes and returns their returns.
    """
    start_s = time.monotonic()
    returns = play()
    self.paused_s += time.monotonic() - start_s
    if returns:
      self._evaluated = statistics.fmean(returns)
      self._end_at(self._evaluated)

  def _mean(self) -> float | None:
    if len(self._returns) < EPISODES:
      return None
    return statistics.fmean(self._returns)

  def _end_at(self, mean: float | None) -> None:
    if self._until is not None and mean is not None and mean >= self._until:
      self._say(reached=True)
      os._exit(0)  # without waiting for threads and processes of the library

  def _tell(self) -> None:
    while True:
      time.sleep(_PERIOD_S)
      self._say(reached=False)

  def _say(self, reached: bool) -> None:
    tell(
      self._out,
      env_steps=self.env_steps,
      updates=self.updates,
      mean_return=self._mean(),
      evaluated=self._evaluated,
      paused_s=self.paused_s,
      reached=reached,
    )


def tell(
  out: int,
  env_steps: int,
  updates: int,
  mean_return: float | None,
  evaluated: float | None,
  paused_s: float,
  reached: bool,
  at_s: float | None = None,
) -> None:
  """Writes one line of progress.

  Args:
    out: file descriptor.
    env_steps: environment steps so far.
    updates: updates so far.
    mean_return: mean of the last training episodes; None: there are too few.
    evaluated: mean of the last greedy evaluation; None: there was none.
    paused_s: seconds spent in evaluations.
    reached: whether the target was reached.
    at_s: monotonic seconds of these values; None: now.
  """
  line = {
    "at_s": time.monotonic() if at_s is None else at_s,
    "env_steps": int(env_steps),
    "updates": int(updates),
    "return": mean_return,
    "evaluated": evaluated,
    "paused_s": paused_s,
    "reached": reached,
  }
  # One call of the system: lines of two threads never mix.
  os.write(out, (json.dumps(line) + "\n").encode())


def parse_arguments(
  variants: Sequence[str], arguments: Sequence[str] | None = None
) -> typing.Any:
  """Parses the arguments of a program: task, seed, until, variant.

  Args:
    variants: variants of the program; the first is the default.
    arguments: arguments of the command line; None: this process's.
  """
  parser = argparse.ArgumentParser()
  parser.add_argument("--task", required=True)
  parser.add_argument("--seed", type=int, default=1)
  parser.add_argument("--until", type=float)
  parser.add_argument("--variant", choices=variants, default=variants[0])
  return parser.parse_args(arguments)
