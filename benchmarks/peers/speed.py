"""Speed: measures the rates and resources of a program that learns."""

import math
import time
import typing

from benchmarks.peers import watched

_UPDATES = 50  # during which a program compiles and warms up
_SETTLES_S = 3.0  # after these updates, before the window
_PATIENCE_S = 240.0
_LATE_S = 30.0  # for programs that report seldom


class Speed(typing.NamedTuple):
  """Rates and resources of all processes of a program, over a time window.

  Attributes:
    env_steps_per_s: environment steps per second.
    updates_per_s: updates of the network per second.
    env_steps_per_cpu_s: environment steps per CPU second.
    cores: CPU seconds per second.
    memory_mib: memory (PSS) after the window, in MiB.
    processes: number of processes after the window.
  """

  env_steps_per_s: float
  updates_per_s: float
  env_steps_per_cpu_s: float
  cores: float
  memory_mib: float
  processes: int


def measure(
  program: watched.Watched, window_s: float, patience_s: float = _PATIENCE_S
) -> Speed:
  """Waits until a program learns, then measures its rates.

  Args:
    program: program that does not end on its own.
    window_s: seconds over which the rates are measured.
    patience_s: seconds within which the program must make 50 updates.

  Raises:
    watched.FailedError: the program ended, made too few updates, or made no
      steps.
  """
  began_s = time.monotonic()
  try:
    program.wait(lambda line: line.updates > _UPDATES, began_s + patience_s)
    settled_s = time.monotonic() + _SETTLES_S
    first = program.wait(
      lambda line: line.at_s > settled_s, settled_s + _LATE_S
    )
    before, began_s = program.tree.measure(), time.monotonic()
    end_s = first.at_s + window_s
    last = program.wait(lambda line: line.at_s >= end_s, end_s + _LATE_S)
    after, ended_s = program.tree.measure(), time.monotonic()
  except TimeoutError as error:
    raise watched.FailedError(
      f"it did not make {_UPDATES} updates within {patience_s:.0f} s, or did "
      f"not report its counts over a window of {window_s:.0f} s"
    ) from error
  if last.env_steps == first.env_steps:
    raise watched.FailedError(f"it made no step in {window_s:.0f} s")
  elapsed_s = last.at_s - first.at_s
  cores = (after.cpu_s - before.cpu_s) / (ended_s - began_s)
  env_steps_per_s = (last.env_steps - first.env_steps) / elapsed_s
  return Speed(
    env_steps_per_s=env_steps_per_s,
    updates_per_s=(last.updates - first.updates) / elapsed_s,
    # The kernel counts in ticks, so a program that sleeps may have used none.
    env_steps_per_cpu_s=env_steps_per_s / cores if cores else math.inf,
    cores=cores,
    memory_mib=program.tree.measure_pss_mib(),
    processes=after.processes,
  )
