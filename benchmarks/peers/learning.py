"""Learning: seconds from a program's start until it reaches its target."""

from benchmarks.peers import watched


def measure(program: watched.Watched, cap_s: float) -> float | None:
  """Waits until a program reports that it has reached its target.

  Args:
    program: program with a target, just started.
    cap_s: seconds after which the measurement is aborted.

  Returns:
    Seconds from the command, without those of evaluations; None: more than the
    cap.

  Raises:
    watched.FailedError: the program ended without reaching its target.
  """
  paused_s = 0.0
  while True:
    deadline_s = program.began_s + cap_s + paused_s
    try:
      line = program.wait(
        lambda told, s=paused_s: told.reached or told.paused_s > s, deadline_s
      )
    except TimeoutError:
      return None
    paused_s = line.paused_s
    if line.reached:
      seconds = line.at_s - program.began_s - paused_s
      return seconds if seconds <= cap_s else None
