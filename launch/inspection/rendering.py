"""Rendering: shows an inspection in the terminal by its fields' names."""

import time
import typing
from collections.abc import Iterator, Mapping, Sequence

import msgspec
import rich.box
import rich.columns
import rich.console
import rich.table
import rich.text

from slipway.launch.display import formatting
from slipway.launch.inspection import histogram

_BAR = 12  # columns of the longest bar of a histogram


def render(
  name: str, found: msgspec.Struct
) -> Iterator[rich.console.RenderableType]:
  """Yields blocks with all values of a structure that are known.

  Args:
    name: title of the structure.
  """
  rows: list[Sequence[str]] = []
  bars: list[rich.table.Table] = []
  blocks: list[rich.console.RenderableType] = []
  for field, value in msgspec.structs.asdict(found).items():
    title = field.replace("_", " ")
    if field.endswith("_at_s"):  # unix seconds
      title = title.removesuffix(" s")
      value = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(value))
    if isinstance(value, histogram.Histogram):
      bars.append(_render_histogram(title, value))
    elif isinstance(value, msgspec.Struct):
      blocks += render(title, value)
    elif isinstance(value, Mapping):
      blocks.append(_render_rows(title, value))
    elif isinstance(value, list) and value:
      if isinstance(value[0], Mapping):
        rows += [(x, _format(y)) for fields in value for x, y in fields.items()]
      elif not isinstance(value[0], msgspec.Struct):
        rows.append((title, _format(value)))
      elif hasattr(value[0], "fields"):
        blocks += (block for x in value for block in render(title, x))
      else:
        numbered = {str(i): x for i, x in enumerate(value, 1)}
        blocks.append(_render_rows(title, numbered))
    elif value is not None and value != []:
      rows.append((title, _format(value)))
  yield _make_table([name, ""], rows)
  if bars:
    yield rich.columns.Columns(bars)
  yield from blocks


def _render_histogram(
  title: str, values: histogram.Histogram
) -> rich.table.Table:
  """Returns a table with a bar per bin."""
  most = max(values.counts)
  lows, highs = values.edges, values.edges[1:]
  rows = [
    [
      f"{_format(low)} to {_format(high)}",
      "█" * round(_BAR * n / most),
      f"{n:,}",
    ]
    for low, high, n in zip(lows, highs, values.counts, strict=False)
  ]
  return _make_table([title, "", ""], rows)


def _render_rows(
  title: str, records: Mapping[str, msgspec.Struct]
) -> rich.table.Table:
  """Returns a table with a row per structure, without unknown columns."""
  rows = {key: msgspec.structs.asdict(x) for key, x in records.items()}
  names = list(
    dict.fromkeys(
      name for x in rows.values() for name, y in x.items() if y is not None
    )
  )
  return _make_table(
    [title, *(x.replace("_", " ") for x in names)],
    [[key, *(_format(x[name]) for name in names)] for key, x in rows.items()],
  )


def _format(value: typing.Any) -> str:
  """Returns a value as text: four digits, but all of whole numbers."""
  if value is None:
    return formatting.UNKNOWN
  if isinstance(value, Mapping):
    return ", ".join(f"{name} {_format(x)}" for name, x in value.items())
  if isinstance(value, list):
    return f"[{', '.join(map(_format, value))}]"
  if not isinstance(value, int | float) or isinstance(value, bool):
    return str(value)
  is_whole = abs(value) >= 1000 or value == round(value)
  return f"{value:,.0f}" if is_whole else f"{value:.4g}"


def _make_table(
  titles: Sequence[str], rows: Sequence[Sequence[str]]
) -> rich.table.Table:
  """Returns a table of texts."""
  made = rich.table.Table(*titles, box=rich.box.SIMPLE_HEAD, pad_edge=False)
  for row in rows:
    made.add_row(*map(rich.text.Text, row))
  return made
