"""Learning: seconds from a program's start until it reaches its target."""

from benchmarks.peers import watched


def measure(program: watched.Watched, cap_s: float) -> float | None:
  """Measures the seconds until a program reaches its target return.

  Args:
    program: program with a target, just started.
    cap_s: seconds after which the measurement is aborted.

  Returns:
    Seconds since the program's start, without its evaluations; None if it has
    not reached the target within `cap_s`.

  Raises:
    watched.FailedError: the program ended without reaching its target.
  """
  paused_s = 0.0
  while True:
    deadline_s = program.began_s + cap_s + paused_s
    try:
      line = program.wait(
        lambda x, s=paused_s: x.reached or x.paused_s > s, deadline_s
      )
    except TimeoutError:
      return None
    paused_s = line.paused_s
    if line.reached:
      seconds = line.at_s - program.began_s - paused_s
      return seconds if seconds <= cap_s else None
