"""Table: the shares of time that a run's processes spend in each step."""

from collections.abc import Mapping

import msgspec

from slipway.launch.control import sampling
from slipway.launch.profiling import steps

_COLUMNS = 5  # processes beside one another, for 80 columns of a terminal


class ProcessTimes(msgspec.Struct, frozen=True):
  """Where the time of one process goes.

  Attributes:
    steps: part of the time in which a thread of the process is in a step, by
      the step's name. It may exceed 1 if threads are in it at the same time.
      'waiting' is that of the main thread only, as others mostly wait.
    cpu_cores: processor seconds per second.
    cpp_cores: those of threads that C++ has started, such as TensorFlow's and
      Reverb's.
  """

  steps: dict[str, float]
  cpu_cores: float
  cpp_cores: float


def make_times(profile: sampling.Profile) -> ProcessTimes:
  """Returns where the time of a profiled process went."""
  found = steps.find_steps(profile)
  count = max(1, len(profile.times_s))
  counts = dict.fromkeys(steps.ORDER, 0)
  for index, thread in enumerate(profile.threads.values()):
    for stack in thread.stacks:
      if stack == sampling.NO_STACK:
        continue
      step = found[stack]
      counts[step] += step != steps.WAITING or index == 0
  own_s = sum(thread.cpu_s for thread in profile.threads.values())
  duration_s = profile.duration_s
  return ProcessTimes(
    {step: n / count for step, n in counts.items() if n},
    profile.cpu_s / duration_s,
    max(0.0, profile.cpu_s - own_s) / duration_s,
  )


def to_text(times: Mapping[str, ProcessTimes]) -> str:
  """Returns a table with a column per process, and a row per step in use.

  Args:
    times: where the time of each process went, by its name.
  """
  names = [*times]
  blocks = range(0, len(names), _COLUMNS)
  return "\n\n".join(
    _make_block({x: times[x] for x in names[first : first + _COLUMNS]})
    for first in blocks
  )


def _make_block(times: Mapping[str, ProcessTimes]) -> str:
  """Returns the table of so few processes that it fits into a terminal."""
  used = {step for own in times.values() for step in own.steps}
  rows = [["", *times]]
  for step in steps.ORDER:
    if step in used:
      shares = [own.steps.get(step, 0.0) for own in times.values()]
      rows.append([step, *(f"{x:.1%}" if x else "" for x in shares)])
  rows.append(["CPU cores", *(f"{x.cpu_cores:.2f}" for x in times.values())])
  rows.append(["of C++", *(f"{x.cpp_cores:.2f}" for x in times.values())])
  widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
  return "\n".join(
    row[0].ljust(widths[0])
    + "".join(f"  {x:>{n}}" for x, n in zip(row[1:], widths[1:], strict=True))
    for row in rows
  )
