"""Rendering: draws a run's status as a panel that fits into the terminal."""

from collections.abc import Iterable

import rich.box
import rich.columns
import rich.console
import rich.panel
import rich.table
import rich.text

from slipway.launch.display import measurements, status_text
from slipway.launch.runs import run_status

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
  blocks = measurements.make_blocks(status)
  diagnosis = _make_diagnosis_table(status)
  stalled = status.stalled_s is not None
  has_ended = status.phase in ("stopping", "stopped")
  limits = [] if has_ended else list(status_text.describe_limits(status))
  width = min(_MAX_WIDTH, console.width)
  margin = 2 if width >= _WIDE_MARGIN_WIDTH else 1
  inner = console.options.update(width=width - 2 * (margin + 1))
  free_lines = console.height - _BORDER_LINES - sum(map(len, blocks))
  free_lines -= _count_lines(console, inner, _make_facts_table(status, []))
  free_lines -= max(
    _STALL_LINES if stalled else _WAIT_LINES,
    _count_lines(console, inner, diagnosis),
  )
  if stalled and free_lines < len(limits):
    limits = []
  free_lines -= len(limits)
  shows_metrics = free_lines > 0
  free_lines -= int(shows_metrics)
  blocks = _drop_rows(blocks, -free_lines)
  gaps = len(blocks)  # between the blocks, and before the sentences
  return rich.panel.Panel(
    rich.console.Group(
      _make_measurement_table(blocks, spaced=free_lines >= gaps),
      *([rich.text.Text()] if free_lines >= gaps else []),
      *([_make_metrics_table(status)] if shows_metrics else []),
      _make_facts_table(status, limits),
      diagnosis,
    ),
    title=_make_title(status, console.options.ascii_only),
    title_align="left",
    box=rich.box.ROUNDED,
    border_style="dim",
    padding=(int(free_lines >= gaps + 2), margin),
    width=width,
  )


def _drop_rows(
  blocks: list[list[measurements.Row]], count: int
) -> list[list[measurements.Row]]:
  """Returns blocks of rows without the least important rows."""
  labels = [row[0] for rows in blocks for row in rows]
  dropped = [x for x in _DISPENSABLE_LABELS if x in labels][: max(0, count)]
  return [[row for row in rows if row[0] not in dropped] for rows in blocks]


def _count_lines(
  console: rich.console.Console,
  options: rich.console.ConsoleOptions,
  table: rich.table.Table,
) -> int:
  """Returns the number of lines of a table, after long texts are wrapped."""
  return len(console.render_lines(table, options, pad=False))


def _make_title(
  status: run_status.RunStatus, ascii_only: bool
) -> rich.text.Text:
  """Returns the panel's title: the run's name, phase, mode and duration."""
  phase, mode = status.phase, status_text.describe_mode(status)
  return rich.text.Text.assemble(
    (status.name, "bold"),
    "  ",
    (f"{'*' if ascii_only else '●'} {phase}", _PHASE_STYLES.get(phase, "")),
    "  ",
    f"{mode}  " if mode else "",
    status_text.format_duration(status.wall_s),
    style="not dim",
  )


def _make_measurement_table(
  blocks: Iterable[list[measurements.Row]], spaced: bool
) -> rich.table.Table:
  """Returns a table with all rows of the measurements."""
  table = rich.table.Table.grid(padding=(0, 1), expand=True)
  table.add_column(style="dim", min_width=11, no_wrap=True)
  table.add_column(style="bold", justify="right", min_width=10, no_wrap=True)
  table.add_column(ratio=1, no_wrap=True, overflow="ellipsis")
  table.add_column(style="bold", justify="right", min_width=6, no_wrap=True)
  table.add_column(min_width=8, no_wrap=True)
  for index, rows in enumerate(blocks):
    if index and spaced:
      table.add_row("")
    for row in rows:
      table.add_row(*row)
  return table


def _make_labelled_table() -> rich.table.Table:
  """Returns an empty table with two columns: labels and texts."""
  table = rich.table.Table.grid(padding=(0, 1), expand=True)
  table.add_column(style="dim", min_width=11, no_wrap=True)
  table.add_column(ratio=1)
  return table


def _make_metrics_table(status: run_status.RunStatus) -> rich.table.Table:
  """Returns a table with one row: metrics of the learner's last update."""
  table = _make_labelled_table()
  text = "  ".join(status_text.describe_metrics(status)) or "-"
  table.add_row(
    "update", rich.text.Text(text, no_wrap=True, overflow="ellipsis")
  )
  return table


def _make_facts_table(
  status: run_status.RunStatus, limits: Iterable[tuple[str, str]]
) -> rich.table.Table:
  """Returns a table with time left, nodes, machines, restarts and failures."""
  table = _make_labelled_table()
  label = "all of" if status_text.needs_all(status) else "time left"
  for time_left, limit in limits:
    table.add_row(label, f"{time_left} {limit}")
    label = ""
  nodes = [
    rich.text.Text(
      f"{role} {up}/{expected}",
      measurements.ALERT_STYLE if up < expected else "",
    )
    for role, up, expected in status_text.list_nodes(status)
  ]
  table.add_row("nodes up", rich.columns.Columns(nodes, padding=(0, 2)))
  restarts = map(rich.text.Text, status_text.describe_restarts(status))
  machines = [
    rich.text.Text(text, "" if up else measurements.ALERT_STYLE)
    for text, up in status_text.describe_machines(status)
  ]
  if machines:
    table.add_row("machines", rich.columns.Columns(machines, padding=(0, 2)))
  table.add_row("restarts", rich.columns.Columns(restarts, padding=(0, 2)))
  for text in status_text.describe_disk(status):
    table.add_row("disk", rich.text.Text(text, measurements.ALERT_STYLE))
  for text in status_text.describe_failed_hooks(status):
    table.add_row(
      "hooks",
      rich.text.Text(
        text, measurements.ALERT_STYLE, no_wrap=True, overflow="ellipsis"
      ),
    )
  return table


def _make_diagnosis_table(status: run_status.RunStatus) -> rich.table.Table:
  """Returns a table with one row: the most important sentence.

  It is the reason to stop, the waiting nodes, or else the newest advice. A run
  that is stopping may wait for its last snapshot.
  """
  table = _make_labelled_table()
  if status.phase == "stopped" or (
    status.phase == "stopping" and not status.waiting
  ):
    table.add_row(
      "because", status_text.describe_reason(status.stopped_because)
    )
  elif status.advice and not status.waiting:
    table.add_row(
      "advice", rich.text.Text(status.advice[-1], measurements.ALERT_STYLE)
    )
  else:
    waiting = rich.text.Text(
      status.waiting or "none",
      measurements.ALERT_STYLE if status.stalled_s is not None else "",
    )
    table.add_row("waiting", waiting)
  return table
