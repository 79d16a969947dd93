"""Data: the saved evaluations of an algorithm's runs on a task."""

import csv
import dataclasses
import pathlib
import typing

import numpy as np


class Curve(typing.NamedTuple):
  """The evaluations of one run.

  Attributes:
    wall_s: seconds since the run's start.  # [N]
    env_steps: environment steps of all workers.  # [N]
    eval_return: mean return of the evaluation.  # [N]
  """

  wall_s: np.ndarray
  env_steps: np.ndarray
  eval_return: np.ndarray


# One evaluation: text by column, with the seed of its run in "seed".
Row = dict[str, str]


@dataclasses.dataclass(frozen=True)
class Saved:
  """The runs of one algorithm, as their file has them.

  Attributes:
    head: what the runs were made with, by name, such as 'commit' and 'config';
      each value is one line.
    rows: evaluations of all runs.
  """

  head: dict[str, str] = dataclasses.field(default_factory=dict)
  rows: list[Row] = dataclasses.field(default_factory=list)

  def seeds(self) -> list[int]:
    """Returns the seeds of the runs, in ascending order."""
    return sorted({int(row["seed"]) for row in self.rows})

  def curves(self) -> list[Curve]:
    """Returns one curve per seed, in the order of the seeds."""
    found = []
    for seed in self.seeds():
      own = [row for row in self.rows if int(row["seed"]) == seed]
      columns = (
        np.array([float(row[name]) for row in own]) for name in Curve._fields
      )
      found.append(Curve(*columns))
    return found


def write(path: pathlib.Path, saved: Saved) -> None:
  """Writes an algorithm's runs as CSV, after a head.

  Args:
    path: path of the file.
    saved: at least one evaluation; the file has them in the seeds' order.
  """
  rows = sorted(saved.rows, key=lambda row: int(row["seed"]))
  with open(path, "w", newline="", encoding="utf-8") as file:
    file.writelines(f"# {name}: {x}\n" for name, x in saved.head.items())
    writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)


def read(path: pathlib.Path) -> Saved:
  """Reads what `write` has written; a missing file has no runs."""
  if not path.exists():
    return Saved()
  lines = path.read_text(encoding="utf-8").splitlines()
  head = [line[2:].split(": ", 1) for line in lines if line.startswith("# ")]
  return Saved(
    {name: value for name, value in head},
    list(csv.DictReader(lines[len(head) :])),
  )


def read_all(folder: pathlib.Path) -> dict[str, Saved]:
  """Returns the saved runs of a task, by algorithm, in the names' order."""
  return {path.stem: read(path) for path in sorted(folder.glob("*.csv"))}
