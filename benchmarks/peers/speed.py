"""Speed: rates of a program once it learns."""

import math
import time
import typing

from benchmarks.peers import watched

_UPDATES = 50  # before that it compiles, and warms up
_SETTLES_S = 3.0
_PATIENCE_S = 240.0
_LATE_S = 30.0  # for lines that come seldom


class Speed(typing.NamedTuple):
  """Rates over a window of time."""

  env_steps_per_s: float
  updates_per_s: float
  env_steps_per_cpu_s: float
  cores: float  # CPU seconds a second, of all processes
  memory_mib: float  # PSS of all processes, after the window
  processes: int


def measure(
  program: watched.Watched, window_s: float, patience_s: float = _PATIENCE_S
) -> Speed:
  """Waits until a program learns, then measures its rates.

  Args:
    program: program that does not end on its own.
    window_s: seconds of the measurement.
    patience_s: seconds within which it must have made 50 updates.

  Raises:
    watched.FailedError: the program ended, never learned, or makes no steps.
  """
  began_s = time.monotonic()
  try:
    program.wait(lambda line: line.updates > _UPDATES, began_s + patience_s)
    settled_s = time.monotonic() + _SETTLES_S
    first = program.wait(
      lambda line: line.at_s > settled_s, settled_s + _LATE_S
    )
    before, began_s = program.tree.look(), time.monotonic()
    end_s = first.at_s + window_s
    last = program.wait(lambda line: line.at_s >= end_s, end_s + _LATE_S)
    after, ended_s = program.tree.look(), time.monotonic()
  except TimeoutError as error:
    raise watched.FailedError(
      f"{_UPDATES} updates and a window of {window_s:.0f} s were not seen in "
      f"{patience_s:.0f} s"
    ) from error
  if last.env_steps == first.env_steps:
    raise watched.FailedError(f"it made no step in {window_s:.0f} s")
  told_s = last.at_s - first.at_s
  cores = (after.cpu_s - before.cpu_s) / (ended_s - began_s)
  env_steps_per_s = (last.env_steps - first.env_steps) / told_s
  return Speed(
    env_steps_per_s=env_steps_per_s,
    updates_per_s=(last.updates - first.updates) / told_s,
    # The kernel counts in ticks: a program that sleeps may have used none.
    env_steps_per_cpu_s=env_steps_per_s / cores if cores else math.inf,
    cores=cores,
    memory_mib=program.tree.pss_mib(),
    processes=after.processes,
  )
