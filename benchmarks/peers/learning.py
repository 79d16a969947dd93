"""Learning: seconds from a program's start until it has learned."""

import typing

from benchmarks.peers import watched


class Learned(typing.NamedTuple):
  """When a program has learned, and what.

  Attributes:
    seconds: seconds since the program's start, without its evaluations.
    mean_return: mean return of its last 20 training episodes; None: there were
      fewer, or it does not report them.
  """

  seconds: float
  mean_return: float | None


def measure(
  program: watched.Watched, cap_s: float, env_steps: int | None = None
) -> Learned | None:
  """Waits until a program has learned.

  Args:
    program: program that was just started.
    cap_s: seconds after which the measurement is aborted, without the program's
      evaluations.
    env_steps: environment steps after which it has learned; None: it has a
      target return, and has learned when it reaches that.

  Returns:
    What it has learned; None if it takes longer than `cap_s`.

  Raises:
    watched.FailedError: the program ended before.
  """

  def is_done(line: watched.Line) -> bool:
    return line.reached if env_steps is None else line.env_steps >= env_steps

  paused_s = 0.0
  while True:
    deadline_s = program.began_s + cap_s + paused_s
    try:
      line = program.wait(
        lambda x, s=paused_s: is_done(x) or x.paused_s > s, deadline_s
      )
    except TimeoutError:
      return None
    paused_s = line.paused_s
    if is_done(line):
      seconds = line.at_s - program.began_s - paused_s
      return Learned(seconds, line.mean_return) if seconds <= cap_s else None
