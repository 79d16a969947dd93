"""Report: writes a benchmark's raw rows as CSV and its medians as markdown."""

import csv
import dataclasses
import pathlib
import statistics
import typing
from collections.abc import Mapping, Sequence

from benchmarks import goal as goal_lib

Row = Mapping[str, typing.Any]  # a value by column: text, number or None


@dataclasses.dataclass(frozen=True)
class Report:
  """Results of one benchmark, which `write` saves as a page and a CSV file.

  Attributes:
    name: name of the benchmark and of its files.
    title: title of the page, one line.
    method: description of the measurement.
    raw: one row per repetition, all with the same columns.
    medians: one row per case, all with the same columns.
    goals: one line per goal with the result; each `goal.Goal` is drawn.
    more: further tables, which follow the medians.
  """

  name: str
  title: str
  method: str
  raw: Sequence[Row]
  medians: Sequence[Row]
  goals: Sequence[str]
  more: Sequence[Sequence[Row]] = ()

  def markdown(self, head: Mapping[str, str]) -> str:
    """Returns the report as a markdown page.

    Args:
      head: description of the machine, by name.
    """
    parts = [
      f"# {self.title}",
      self.method,
      *(make_table(rows) for rows in (self.medians, *self.more)),
      "\n".join(f"- {goal}" for goal in self.goals),
      f"![Goals]({self._picture})" if self._has_picture else "",
      f"Every repetition is in [{self.name}.csv]({self.name}.csv).",
      make_table([{"measured with": k, "": v} for k, v in head.items()]),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"

  def write(self, folder: pathlib.Path, head: Mapping[str, str]) -> None:
    """Writes the page, the picture of the goals, and the rows as CSV.

    Files: `name`.md, `name`.csv, and `name`_goals.png for goals with numbers.

    Args:
      folder: folder for the files, created if needed.
      head: description of the machine, by name.
    """
    folder.mkdir(parents=True, exist_ok=True)
    page = folder / f"{self.name}.md"
    page.write_text(self.markdown(head), encoding="utf-8")
    goal_lib.draw(self.goals, folder / self._picture)
    with open(
      folder / f"{self.name}.csv", "w", newline="", encoding="utf-8"
    ) as file:
      for name, value in head.items():
        file.write(f"# {name}: {value}\n")
      writer = csv.DictWriter(file, list(self.raw[0]), lineterminator="\n")
      writer.writeheader()
      writer.writerows(self.raw)

  @property
  def _picture(self) -> str:
    return f"{self.name}_goals.png"

  @property
  def _has_picture(self) -> bool:
    return any(isinstance(goal, goal_lib.Goal) for goal in self.goals)


def read(path: pathlib.Path) -> list[dict[str, str]]:
  """Reads the rows of a report's CSV file.

  Returns:
    The rows, whose values are text.

  Raises:
    ValueError: the file can't be read, or has no rows; the message does not
      contain the path.
  """
  try:
    lines = path.read_text(encoding="utf-8").splitlines()
  except OSError as error:
    raise ValueError(f"it can't be read: {error.strerror}") from error
  except UnicodeDecodeError as error:
    raise ValueError(f"it is not text: {error}") from error
  rows = list(csv.DictReader(line for line in lines if line[:1] != "#"))
  if not rows:
    raise ValueError("it has no rows")
  return rows


def median(rows: Sequence[Row], column: str, **where) -> float:
  """Returns the median of a column over selected rows.

  Args:
    rows: rows of measurements.
    column: name of the column.
    **where: values of other columns that select the rows.

  Raises:
    ValueError: no row is selected.
  """
  values = [
    float(row[column])
    for row in rows
    if all(row[name] == value for name, value in where.items())
  ]
  if not values:
    raise ValueError(f"no row has {where}, so there is no median of {column}")
  return statistics.median(values)


def ratio(rows: Sequence[Row], column: str, of: Row, to: Row) -> float:
  """Returns the ratio of a column's values in two cases.

  It is the median over repetitions. The two values of a repetition were
  measured right after one another, so a temporarily slow machine affects both.

  Args:
    rows: rows with a column `repetition`.
    column: name of the column.
    of: values of other columns that select the numerator's rows.
    to: values of other columns that select the denominator's rows.
  """
  repetitions = sorted({row["repetition"] for row in rows})
  return statistics.median(
    median(rows, column, repetition=r, **of)
    / median(rows, column, repetition=r, **to)
    for r in repetitions
  )


def make_table(rows: Sequence[Row]) -> str:
  """Returns rows as a markdown table, whose head is the first row's keys."""
  if not rows:
    return ""
  lines = [list(rows[0]), ["---"] * len(rows[0])]
  lines += [[_cell(value) for value in row.values()] for row in rows]
  return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _cell(value) -> str:
  """Returns a value as the text of a table's cell."""
  if value is None:
    return ""
  if isinstance(value, float):
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.2f}"
  return str(value)
