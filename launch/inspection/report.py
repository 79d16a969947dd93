"""Report: named results with their meanings, for the terminal and as JSON."""

import math
import typing
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import rich.box
import rich.table
import rich.text

from slipway.launch.display import formatting

_LEVELS = {"min": 0.0, "p10": 0.1, "median": 0.5, "p90": 0.9, "max": 1.0}


class Row(typing.NamedTuple):
  """One result.

  Attributes:
    name: name of the result, in JSON too.
    value: number, text, list of such, or numbers by name; None: unknown.
    meaning: what the value says, for the terminal.
  """

  name: str
  value: typing.Any
  meaning: str = ""


# The results of each section, by the section's name.
Report = dict[str, list[Row]]


def quantiles(values: np.ndarray) -> dict[str, float]:
  """Returns the minimum, quantiles and maximum of numbers [N, ...], N > 0."""
  found = np.quantile(values.astype(np.float64), [*_LEVELS.values()])
  return dict(zip(_LEVELS, found.tolist(), strict=True))


def to_values(report: Report) -> dict[str, dict[str, typing.Any]]:
  """Returns the values of each section by name."""
  return {
    section: {row.name: row.value for row in rows}
    for section, rows in report.items()
  }


def render(report: Report) -> Iterator[rich.table.Table]:
  """Yields a table per section; numbers by name have a column each."""
  for section, rows in report.items():
    names = [""]
    if isinstance(rows[0].value, Mapping):
      names = [*rows[0].value]
    table = rich.table.Table(
      *(section, *names, ""), box=rich.box.SIMPLE_HEAD, padding=(0, 1, 0, 0)
    )
    for name, value, meaning in rows:
      cells = [value] if names == [""] else value.values()
      texts = (name.replace("_", " "), *map(_format, cells))
      table.add_row(*map(rich.text.Text, texts), rich.text.Text(meaning, "dim"))
    yield table


def _format(value: typing.Any) -> str:
  """Returns a value as text: four digits, but all of whole numbers."""
  if isinstance(value, Mapping):
    return ", ".join(f"{name} {_format(x)}" for name, x in value.items())
  if isinstance(value, Sequence) and not isinstance(value, str):
    return f"[{', '.join(map(_format, value))}]"
  if not isinstance(value, int | float | np.number):
    return str(value)
  number = float(value)
  if not math.isfinite(number):
    return formatting.UNKNOWN
  is_whole = abs(number) >= 1000 or number == round(number)
  return f"{number:,.0f}" if is_whole else f"{number:.4g}"
