"""Rendering: draws a run's status as a panel that fits into the terminal."""

from collections.abc import Iterable, Sequence

import rich.box
import rich.console
import rich.panel
import rich.table
import rich.text

from slipway.launch.display import formatting, lines, rows
from slipway.launch.runs import run_status

_ALERT_STYLE = "yellow"  # style of nodes that are down, losses and stalls
_MAX_WIDTH = 80  # width of the panel in columns, if the terminal has so many
# Labels of the rows that are left out, in this order, if a terminal has too few
# lines.
_DISPENSABLE_LABELS = (
  *("load", "losses", "update", "proxy", "loading", "variables", "items"),
  "training",
  *("sampling", "snapshot", "learning", "replay", "best", "time left"),
  *("all of", "curve", "speed", "restarts", "hooks", "disk", "failure"),
  *("machines",),
)

# Style of the phase in the panel's title, by phase.
_PHASE_STYLES = {
  "starting": "yellow",
  "running": "green",
  "paused": "yellow",
  "stopping": "yellow",
  "stopped": "blue",
}

# A row: its label and what is shown.
_Row = tuple[str, rich.text.Text]


def render(
  status: run_status.RunStatus, console: rich.console.Console
) -> rich.console.RenderableType:
  """Returns a panel with a run's status.

  The rows depend mainly on the run's limits and roles, and the sentence about
  waiting nodes is the last row, so that rows keep their places. If the terminal
  has too few lines, empty rows are left out, and then one row after the other,
  but never the last one.

  Args:
    console: the console whose size limits the panel.
  """
  blocks = rows.make_measurements(status)
  texts = _make_text_rows(status, console.options.ascii_only)
  panel = _make_panel(status, console, blocks, texts, is_spaced=True)
  for label in ("", *_DISPENSABLE_LABELS):
    if len(console.render_lines(panel, pad=False)) <= console.height:
      break
    blocks = [[x for x in block if x.label != label] for block in blocks]
    texts = [x for x in texts if x[0] != label]
    panel = _make_panel(status, console, blocks, texts, is_spaced=False)
  return panel


def _make_panel(
  status: run_status.RunStatus,
  console: rich.console.Console,
  blocks: Iterable[Sequence[rows.Measurement]],
  texts: Iterable[_Row],
  is_spaced: bool,
) -> rich.panel.Panel:
  """Returns a panel with rows of measurements and rows of texts."""
  text_table = rich.table.Table.grid(padding=(0, 1), expand=True)
  text_table.add_column(style="dim", min_width=11, no_wrap=True)
  text_table.add_column(ratio=1)
  for row in texts:
    text_table.add_row(*row)
  return rich.panel.Panel(
    rich.console.Group(
      _make_measurement_table(blocks, is_spaced),
      *([rich.text.Text()] if is_spaced else []),
      text_table,
    ),
    title=_make_title(status, console.options.ascii_only),
    title_align="left",
    box=rich.box.ROUNDED,
    border_style="dim",
    padding=(0, 2 if console.width >= _MAX_WIDTH else 1),
    width=min(_MAX_WIDTH, console.width),
  )


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


def _make_text_rows(
  status: run_status.RunStatus, ascii_only: bool
) -> list[_Row]:
  """Returns the rows with curve, metrics, time left, nodes and the cause."""
  curve = formatting.sparkline(status.evaluation.last_returns, ascii_only)
  metrics = "  ".join(rows.find_metrics(status)) or formatting.UNKNOWN
  made = [
    ("curve", _join([rows.Text(curve)], is_cut=True)),
    ("update", _join([rows.Text(metrics)], is_cut=True)),
  ]
  if losses := "  ".join(rows.find_losses(status)):
    made.append(("losses", _join([rows.Text(losses)], is_cut=True)))
  if limits := rows.find_time_left(status):
    label = "all of" if lines.needs_all(status) else "time left"
    made.append((label, rich.text.Text("\n".join(limits))))
  for label, texts in rows.make_facts(status):
    # The last status stays on the terminal, so that it shows the whole cause.
    is_running = status.phase != "stopped"
    is_cut = label == "hooks" or (label == "failure" and is_running)
    made.append((label, _join(texts, is_cut)))
  label, text = rows.make_diagnosis(status)
  return [*made, (label, _join([text]))]


def _join(texts: Iterable[rows.Text], is_cut: bool = False) -> rich.text.Text:
  """Returns texts in their styles; a long one is wrapped unless it `is_cut`."""
  overflow = "ellipsis" if is_cut else "fold"
  joined = rich.text.Text("  ", no_wrap=is_cut, overflow=overflow)
  return joined.join(
    rich.text.Text(x.text, _ALERT_STYLE if x.alert else "") for x in texts
  )
