"""Learning: seconds from a program's command until it has learned its task."""

from benchmarks.peers import watched


def measure(program: watched.Watched, cap_s: float) -> float | None:
  """Waits until a program says that it has reached its target.

  Args:
    program: just started, with a target.
    cap_s: after so long it is given up.

  Returns:
    Seconds from the command, without those it spent in evaluations; None: it
    took longer than the cap.

  Raises:
    watched.FailedError: it ended without having reached it.
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
