"""Ratios: computes the guard's ratios from rows of the benchmarks."""

import dataclasses
import pathlib
import typing
from collections.abc import Mapping, Sequence

from benchmarks import report


@dataclasses.dataclass(frozen=True)
class Side:
  """The numerator or the denominator of a ratio, as a selection of rows.

  Attributes:
    column: name of the column with the values.
    where: values of other columns that select the rows.
  """

  column: str
  where: Mapping[str, object]

  def value(self, rows: Sequence[report.Row], repetition: str) -> float:
    """Returns the value of one repetition.

    Args:
      rows: rows of the benchmark.
      repetition: number of the repetition, as in the rows.

    Raises:
      ValueError: there is not exactly one value, or it is not above 0.
    """
    where = {**self.where, "repetition": repetition}
    texts = [
      row.get(self.column)
      for row in rows
      if all(str(row.get(name)) == str(v) for name, v in where.items())
    ]
    try:
      (value,) = (float(typing.cast(typing.Any, text)) for text in texts)
    except (TypeError, ValueError) as error:
      raise ValueError(
        f"column {self.column!r} does not have exactly one number where {where}"
      ) from error
    if value <= 0:
      raise ValueError(f"{value} in column {self.column!r} where {where}")
    return value


@dataclasses.dataclass(frozen=True)
class Ratio:
  """A ratio of two measured quantities; more is better.

  Attributes:
    name: name of the ratio in messages.
    benchmark: name of the benchmark whose rows it uses.
    of: the numerator.
    to: the denominator, measured in the same repetition.
  """

  name: str
  benchmark: str
  of: Side
  to: Side

  def values(self, rows: Sequence[report.Row]) -> list[float]:
    """Returns the ratio of each repetition.

    Args:
      rows: rows of the benchmark, new ones or from `report.read`.

    Raises:
      ValueError: the rows lack the ratio, or have fewer than two repetitions.
    """
    wanted = self.of.where
    repetitions = sorted(
      {
        str(row.get("repetition"))
        for row in rows
        if all(str(row.get(name)) == str(v) for name, v in wanted.items())
      }
    )
    if len(repetitions) < 2:
      raise ValueError(
        f"{len(repetitions)} repetitions where {dict(wanted)}, but a range "
        "requires two"
      )
    return [
      self.of.value(rows, one) / self.to.value(rows, one) for one in repetitions
    ]

  def committed(self, folder: pathlib.Path) -> list[float]:
    """Returns the ratio of each repetition in a folder of committed results.

    Raises:
      ValueError: the benchmark's CSV file can't be read, or lacks the ratio.
    """
    path = folder / f"{self.benchmark}.csv"
    try:
      return self.values(report.read(path))
    except ValueError as error:
      raise ValueError(
        f"no committed ratio {self.name!r} to compare with in {path}: {error}; "
        f"measure it with `make bench ARGS=--only={self.benchmark}`"
      ) from error


def trainer(case: str) -> Ratio:
  """Returns the ratio of updates per second, on replay to on a fixed batch."""
  return Ratio(
    f"trainer, replay / fixed batch: {case}",
    "trainer",
    Side("updates_per_s", {"case": case, "kind": "replay"}),
    Side("updates_per_s", {"case": case, "kind": "fixed"}),
  )


def proxy(case: str) -> Ratio:
  """Returns the ratio of items per second, through the proxy to directly."""
  return Ratio(
    f"proxy / direct: {case}",
    "proxy",
    Side("items_per_s", {"case": case, "side": "proxy"}),
    Side("items_per_s", {"case": case, "side": "direct"}),
  )


WORKER = Ratio(
  "worker / Acme: environment steps per CPU second",
  "worker",
  Side("steps_per_cpu_s", {"side": "slipway"}),
  Side("steps_per_cpu_s", {"side": "acme"}),
)


def start_up(workers: int) -> Ratio:
  """Returns the ratio of TensorFlow's import time to a run's start-up time."""
  return Ratio(
    "import of TensorFlow / start-up of a run",
    "scaling",
    Side("import_s", {"workers": workers}),
    Side("start_up_s", {"workers": workers}),
  )
