"""Guard: reports whether committed ratios have fallen. `make bench-quick`.

Runs short versions of benchmarks for two minutes, and compares their ratios
with the committed ones. Both sides of a ratio are measured together.
"""

import argparse
import dataclasses
import functools
import os
import pathlib
import statistics
import sys
import time
import typing
from collections.abc import Callable, Sequence

from benchmarks import (
  command_line,
  machine,
  proxy,
  ratios,
  report,
  trainer,
  worker,
  writing_rig,
)
from benchmarks.scaling import one_run

_RUNS = 3  # repetitions of each
# Share of the machine's CPU time. If other processes use more of it during a
# measurement, they may be the reason for a lower ratio.
_OTHERS = 0.1

_WORKERS = 2  # workers in the start-up measurement, as in the config
_WRITERS = 4
# Updates per repetition of the trainer's cases, by name.
_UPDATES = {
  "MLP 256-256, batch 256": 300,
  "MLP 64-64, batch 64": 1_000,
  "Nature CNN, batch 32, double, dueling": 20,
}
_TRAINER = tuple(
  dataclasses.replace(case, updates=_UPDATES[case.name])
  for case in trainer.CASES
  if case.name in _UPDATES
)


class Verdict(typing.NamedTuple):
  """Comparison of one measured ratio with its committed value.

  Attributes:
    name: name of the ratio.
    committed: median of the committed repetitions.
    now: median of the new repetitions.
    noise: largest difference of the two that is not significant.
    others: fraction of the machine's CPU time that other processes used.
  """

  name: str
  committed: float
  now: float
  noise: float
  others: float

  @property
  def fell(self) -> bool:
    """Whether the ratio fell by more than the noise, on an idle machine."""
    return self._is_below and self.others <= _OTHERS

  @property
  def line(self) -> str:
    """The verdict as one line of text."""
    if self.fell:
      result = "fell by more than its noise"
    elif self._is_below:
      result = (
        f"not judged: lower, but others took {self.others:.0%} of the machine"
      )
    elif self.now > self.committed + self.noise:
      result = "rose by more than its noise"
    else:
      result = "within"
    return (
      f"{self.name}: committed {self.committed:.2f}, now {self.now:.2f}, "
      f"noise {self.noise:.2f}: {result}"
    )

  @property
  def _is_below(self) -> bool:
    return self.now < self.committed - self.noise


def compare(
  name: str,
  committed: Sequence[float],
  now: Sequence[float],
  others: float = 0.0,
) -> Verdict:
  """Compares the new repetitions of a ratio with the committed ones.

  The noise is the range of the committed ratios plus the range of the new ones.

  Args:
    name: name of the ratio.
    committed: ratios of the committed repetitions, at least one.
    now: ratios of the new repetitions.
    others: fraction of the machine's CPU time that other processes used.
  """
  noise = sum(max(values) - min(values) for values in (committed, now))
  return Verdict(
    name, statistics.median(committed), statistics.median(now), noise, others
  )


class _Part(typing.NamedTuple):
  """A short version of a benchmark.

  Attributes:
    measure: function that runs it and returns the rows of measurements.
    ratios: ratios that are computed from the rows.
  """

  measure: Callable[[], Sequence[report.Row]]
  ratios: Sequence[ratios.Ratio]


def main(arguments: Sequence[str] | None = None) -> int:
  """Measures the ratios, compares them, and prints one line per ratio.

  Args:
    arguments: arguments of the command line; None: those of this process.

  Returns:
    Exit status: 0 if no ratio fell by more than its noise, 1 if one did, 2 if
    there are no committed results.
  """
  args = _parse(arguments)
  parts = _parts()
  try:  # All of them, before anything is measured.
    committed = {
      ratio.name: ratio.committed(args.results)
      for part in parts
      for ratio in part.ratios
    }
  except ValueError as error:
    print(f"guard: {error}", file=sys.stderr)
    return 2
  verdicts = []
  for part in parts:
    others = _OtherProcesses()
    rows = part.measure()
    taken = others.part()
    for ratio in part.ratios:
      now = ratio.values(rows)
      verdicts.append(compare(ratio.name, committed[ratio.name], now, taken))
      print(verdicts[-1].line, flush=True)
  return int(any(verdict.fell for verdict in verdicts))


def _parts() -> list[_Part]:
  """Returns the short benchmarks of this machine's number of cores."""
  names = (
    f"small, {placement}, {_WRITERS} writers"
    for placement in (writing_rig.SHARED, writing_rig.SPARE)
  )
  effort = writing_rig.Effort(warm_up_s=0.3, window_s=0.8, flushes=200)
  if len(os.sched_getaffinity(0)) == 1:
    names = (f"small, {writing_rig.SHARED}, {_WRITERS} writers",)
  return [
    _Part(
      lambda: worker.measure(_RUNS, ours_steps=40_000, acme_steps=2_000).raw,
      [ratios.WORKER],
    ),
    *(
      _Part(functools.partial(_trainer, case), [ratios.trainer(case.name)])
      for case in _TRAINER
    ),
    _Part(
      lambda: proxy.measure(_RUNS, ["small"], [_WRITERS], effort).raw,
      [ratios.proxy(name) for name in names],
    ),
    _Part(_start_ups, [ratios.start_up(_WORKERS)]),
  ]


def _trainer(case: trainer.Case) -> Sequence[report.Row]:
  """Measures one case of the benchmark `trainer`."""
  return trainer.measure(_RUNS, (case,)).raw


def _start_ups() -> list[report.Row]:
  """Measures the start-up of a run several times."""
  return [
    {
      "repetition": repetition,
      "workers": _WORKERS,
      **one_run.measure_start_up(_WORKERS),
    }
    for repetition in range(_RUNS)
  ]


class _OtherProcesses:
  """A measurement of the CPU time of other processes since its construction."""

  def __init__(self):
    self._began = self._read_clocks()

  def part(self) -> float:
    """Returns the fraction of all cores' CPU time that other processes used."""
    wall_s, busy_s, own_s = (
      now - began
      for now, began in zip(self._read_clocks(), self._began, strict=True)
    )
    cores = os.cpu_count() or 1
    return max(0.0, busy_s - own_s) / (wall_s * cores)

  def _read_clocks(self) -> tuple[float, float, float]:
    """Returns seconds: the time, all cores' CPU time, and this process's."""
    own_s = sum(os.times()[:4])  # includes child processes that have ended
    return time.monotonic(), machine.busy_s(), own_s


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
  parser = argparse.ArgumentParser(prog="benchmarks.guard", description=__doc__)
  parser.add_argument(
    "--results",
    type=pathlib.Path,
    default=command_line.RESULTS,
    help="folder of the committed results; default: benchmarks/results",
  )
  return parser.parse_args(arguments)


if __name__ == "__main__":
  sys.exit(main())
