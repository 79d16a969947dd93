"""Rendering: draws a run's status as a panel that fits into the terminal."""

from collections.abc import Iterable, Sequence

import rich.box
import rich.columns
import rich.console
import rich.panel
import rich.table
import rich.text

from slipway.launch.display import formatting, lines, rows
from slipway.launch.runs import run_status

_ALERT_STYLE = "yellow"  # style of nodes that are down, losses and stalls
_MAX_WIDTH = 80  # width of the panel in columns, if the terminal has so many
_WIDE_MARGIN_WIDTH = 70  # width in columns from which margins have 2 columns
_BORDER_LINES = 2  # lines of the panel's border: top and bottom
# Lines reserved for the sentence about waiting nodes, normally and in a stall.
_WAIT_LINES, _STALL_LINES = 2, 5
# Labels of the rows that are left out, in this order, if a terminal has too few
# lines.
_DISPENSABLE_LABELS = (
  *("proxy", "loading", "variables", "items", "training", "sampling"),
  *("snapshot", "learning", "replay", "best", "speed"),
)

# Style of the phase in the panel's title, by phase.
_PHASE_STYLES = {
  "starting": "yellow",
  "running": "green",
  "paused": "yellow",
  "stopping": "yellow",
  "stopped": "blue",
}


def render(
  status: run_status.RunStatus, console: rich.console.Console
) -> rich.console.RenderableType:
  """Returns a panel with a run's status.

  The rows depend mainly on the run's limits and roles, and the sentence about
  waiting nodes is the last row, so that rows keep their places. If the terminal
  has too few lines, empty rows, the learner's metrics, other measurements and,
  during a stall, the time left are left out. The last row is always shown.

  Args:
    status: the run's status.
    console: the console whose size limits the panel.
  """
  blocks = rows.make_measurements(status)
  diagnosis = _make_text_table([_make_diagnosis_row(status)])
  facts = _make_facts_rows(status)
  limits = rows.find_time_left(status)
  width = min(_MAX_WIDTH, console.width)
  margin = 2 if width >= _WIDE_MARGIN_WIDTH else 1
  inner = console.options.update(width=width - 2 * (margin + 1))
  stalled = status.stalled_s is not None

  def count_lines(table: rich.table.Table) -> int:
    """Returns the lines of a table, after long texts are wrapped."""
    return len(console.render_lines(table, inner, pad=False))

  free_lines = console.height - _BORDER_LINES - sum(map(len, blocks))
  free_lines -= count_lines(_make_text_table(facts))
  free_lines -= max(
    _STALL_LINES if stalled else _WAIT_LINES, count_lines(diagnosis)
  )
  if stalled and free_lines < len(limits):
    limits = []
  free_lines -= len(limits)
  metrics = []
  if free_lines > 0:
    free_lines -= 1
    text = "  ".join(rows.find_metrics(status)) or formatting.UNKNOWN
    metrics = [("update", _one_line(text))]
  blocks = _drop_rows(blocks, -free_lines)
  spaced = free_lines >= len(blocks)  # between the blocks, and after them
  label = "all of" if lines.needs_all(status) else "time left"
  time_left = [
    (label if i == 0 else "", rich.text.Text(text))
    for i, text in enumerate(limits)
  ]
  return rich.panel.Panel(
    rich.console.Group(
      _make_measurement_table(blocks, spaced),
      *([rich.text.Text()] if spaced else []),
      _make_text_table([*metrics, *time_left, *facts]),
      diagnosis,
    ),
    title=_make_title(status, console.options.ascii_only),
    title_align="left",
    box=rich.box.ROUNDED,
    border_style="dim",
    padding=(int(free_lines >= len(blocks) + 2), margin),
    width=width,
  )


def _drop_rows(
  blocks: list[list[rows.Measurement]], count: int
) -> list[list[rows.Measurement]]:
  """Returns blocks of rows without the least important rows."""
  labels = [row.label for block in blocks for row in block]
  dropped = [x for x in _DISPENSABLE_LABELS if x in labels][: max(0, count)]
  return [
    [row for row in block if row.label not in dropped] for block in blocks
  ]


def _make_title(
  status: run_status.RunStatus, ascii_only: bool
) -> rich.text.Text:
  """Returns the panel's title: the run's name, phase, mode and duration."""
  phase = status.phase
  return rich.text.Text.assemble(
    (status.name, "bold"),
    "  ",
    (f"{'*' if ascii_only else '●'} {phase}", _PHASE_STYLES.get(phase, "")),
    "  ",
    "" if status.mode == "async" else f"{status.mode}  ",
    formatting.duration(status.wall_s),
    style="not dim",
  )


def _make_measurement_table(
  blocks: Iterable[Sequence[rows.Measurement]], spaced: bool
) -> rich.table.Table:
  """Returns a table with all measurements."""
  table = rich.table.Table.grid(padding=(0, 1), expand=True)
  table.add_column(style="dim", min_width=11, no_wrap=True)
  table.add_column(style="bold", justify="right", min_width=10, no_wrap=True)
  table.add_column(ratio=1, no_wrap=True, overflow="ellipsis")
  table.add_column(style="bold", justify="right", min_width=6, no_wrap=True)
  table.add_column(min_width=8, no_wrap=True)
  for index, block in enumerate(blocks):
    if index and spaced:
      table.add_row("")
    for row in block:
      second = rich.text.Text(row.second, _ALERT_STYLE if row.alert else "")
      table.add_row(
        row.label,
        row.number,
        rich.text.Text(row.unit),
        second,
        row.second_unit,
      )
  return table


def _make_text_table(
  labelled: Iterable[tuple[str, rich.console.RenderableType]],
) -> rich.table.Table:
  """Returns a table with two columns: labels and texts."""
  table = rich.table.Table.grid(padding=(0, 1), expand=True)
  table.add_column(style="dim", min_width=11, no_wrap=True)
  table.add_column(ratio=1)
  for row in labelled:
    table.add_row(*row)
  return table


def _make_facts_rows(
  status: run_status.RunStatus,
) -> list[tuple[str, rich.console.RenderableType]]:
  """Returns the rows with nodes, machines, restarts and failures."""
  made: list[tuple[str, rich.console.RenderableType]] = []
  for label, texts in rows.make_facts(status):
    shown = [_style(text) for text in texts]
    # The last status stays on the terminal, so that it shows the whole cause.
    if label == "hooks" or (label == "failure" and status.phase != "stopped"):
      made.append((label, _one_line(*shown)))
    else:
      made.append((label, rich.columns.Columns(shown, padding=(0, 2))))
  return made


def _make_diagnosis_row(
  status: run_status.RunStatus,
) -> tuple[str, rich.text.Text]:
  """Returns the row with the most important sentence."""
  label, text = rows.make_diagnosis(status)
  return label, _style(text)


def _style(text: rows.Text) -> rich.text.Text:
  """Returns a text in its style."""
  return rich.text.Text(text.text, _ALERT_STYLE if text.alert else "")


def _one_line(*parts: str | rich.text.Text) -> rich.text.Text:
  """Returns a text that is cut off instead of wrapped."""
  text = rich.text.Text(no_wrap=True, overflow="ellipsis")
  return text.append_text(rich.text.Text.assemble(*parts))
