"""Panel: shows a run's status on the terminal while the run is active."""

import io
import os
import sys
import typing
from collections.abc import Iterable

import rich.box
import rich.columns
import rich.console
import rich.live
import rich.panel
import rich.table
import rich.text

from slipway.launch.display import output as output_lib
from slipway.launch.display import standard_streams, status_text
from slipway.launch.runs import run_status

_MAX_WIDTH = 80  # width of the panel in columns, if the terminal has so many
_WIDE_MARGIN_WIDTH = 70  # width in columns from which margins have 2 columns
_LINE_PERIOD_S = 5.0  # seconds between two plain lines with the progress
# Seconds to wait until the previous status is written. After that time, the new
# status is not shown.
_WRITE_TIMEOUT_S = 0.01
# The same time for the last status of a run.
_LAST_WRITE_TIMEOUT_S = 2.0

_ALERT_STYLE = "yellow"  # style of nodes that are down, losses and stalls

# Text of a table's cell, and the cells of one row.
_Cell = str | rich.text.Text
_Row = tuple[_Cell, ...]

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


class Panel:
  """Display of a run's status: in place on a terminal, else in plain lines.

  ```python
  with Panel() as panel:
    while running:
      panel.update(control.status())
  ```
  """

  def __init__(self, console: rich.console.Console | None = None):
    """Makes a panel that shows nothing yet.

    Args:
      console: the console to print to, or None for standard output.
    """
    self._output = None if console else _open_output()
    # The argument overrides FORCE_COLOR, which Jupyter and CI services set and
    # which would make rich treat a file as a terminal.
    self._console = console or rich.console.Console(
      file=typing.cast("typing.IO[str] | None", self._output),
      force_terminal=self._output is not None and self._output.isatty(),
    )
    self._live: rich.live.Live | None = None
    # Size of the console at the last update.
    self._size: rich.console.ConsoleDimensions | None = None
    # The last status that was printed as plain lines.
    self._printed: run_status.RunStatus | None = None
    self._line_due_s = 0.0

  def __enter__(self) -> "Panel":
    """Returns this panel."""
    return self

  def __exit__(self, *_: object) -> None:
    """Closes the panel."""
    self.close()

  def update(self, status: run_status.RunStatus) -> None:
    """Shows a status, or drops it if the previous one is not written yet.

    The output may be a terminal that is stopped or closed, a pipe without a
    reader, or a file on a full disk. The last status of a run waits up to 2 s
    for the previous one.
    """
    timeout_s = (
      _LAST_WRITE_TIMEOUT_S if status.phase == "stopped" else _WRITE_TIMEOUT_S
    )
    if self._output is not None and not self._output.wait_written(timeout_s):
      return
    if not self._console.is_terminal or self._console.is_dumb_terminal:
      self._print_lines(status)
      return
    size = self._console.size
    if self._live is not None and size != self._size:
      # The terminal has wrapped the old panel, which can't be replaced now.
      self._live.stop()
      self._console.clear()
      self._live = None
    if self._live is None:
      self._live = rich.live.Live(console=self._console, auto_refresh=False)
      self._live.start()
    self._size = size
    self._live.update(render(status, self._console), refresh=True)

  def close(self) -> None:
    """Ends the display; the last status stays on the terminal.

    If the last status can't be written within 2 s, all later output of this
    process is dropped, since writing it would block, or fail at the exit.
    """
    live, self._live = self._live, None
    if live is not None:
      live.stop()
    output = self._output
    if output is None:
      return
    if not output.wait_written(_LAST_WRITE_TIMEOUT_S) or output.failed:
      descriptors = [output.fileno()]
      if os.path.sameopenfile(output.fileno(), sys.stderr.fileno()):
        descriptors.append(sys.stderr.fileno())
      for descriptor in descriptors:
        standard_streams.discard(descriptor)

  def _print_lines(self, status: run_status.RunStatus) -> None:
    """Prints lines with a new phase, a new evaluation and the progress.

    The progress is printed every 5 s, and when the run has stopped.
    """
    lines, printed = [], self._printed
    if printed is None or status.phase != printed.phase:
      lines.append(status_text.phase_line(status))
    before = printed.evaluation.count if printed else 0
    # Evaluations before a resume were printed by the earlier process.
    if status.evaluation.count > before and status.evaluation.episodes:
      lines.append(status_text.evaluation_line(status))
    given = len(printed.advice) if printed else 0
    lines += [
      status_text.advice_line(status, sentence)
      for sentence in status.advice[given:]
    ]
    if status.wall_s >= self._line_due_s or status.phase == "stopped":
      lines.append(status_text.progress_line(status))
      self._line_due_s = status.wall_s + _LINE_PERIOD_S
    self._printed = status
    for line in lines:
      # Lines in a file are not wrapped.
      self._console.print(line, soft_wrap=True, markup=False, highlight=False)


def _open_output() -> output_lib.Output | None:
  """Returns standard output, or None if it is closed or a notebook's stream.

  Text written to the descriptor of a notebook's stream would not appear in the
  cell's output.
  """
  if not isinstance(sys.stdout, io.TextIOWrapper):
    return None
  try:
    return output_lib.Output(sys.stdout)
  except (OSError, ValueError):
    return None


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
  blocks = _make_measurement_blocks(status)
  has_ended = status.phase in ("stopping", "stopped")
  limits = [] if has_ended else list(status_text.describe_limits(status))
  width = min(_MAX_WIDTH, console.width)
  margin = 2 if width >= _WIDE_MARGIN_WIDTH else 1
  inner = console.options.update(width=width - 2 * (margin + 1))
  free_lines = console.height - _BORDER_LINES - sum(map(len, blocks))
  free_lines -= _count_lines(console, inner, _make_facts_table(status, []))
  free_lines -= max(
    _STALL_LINES if _is_stalled(status) else _WAIT_LINES,
    _count_lines(console, inner, _make_diagnosis_table(status, has_ended)),
  )
  if _is_stalled(status) and free_lines < len(limits):
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
      _make_diagnosis_table(status, has_ended),
    ),
    title=_make_title(status, console.options.ascii_only),
    title_align="left",
    box=rich.box.ROUNDED,
    border_style="dim",
    padding=(int(free_lines >= gaps + 2), margin),
    width=width,
  )


def _drop_rows(blocks: list[list[_Row]], count: int) -> list[list[_Row]]:
  """Returns blocks of rows without the least important rows.

  Args:
    blocks: rows of the panel.
    count: number of rows to leave out; none if it is negative.
  """
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


def _make_measurement_blocks(status: run_status.RunStatus) -> list[list[_Row]]:
  """Returns three blocks of rows: counts, rates and returns.

  A row has a label, a number with its unit, and a second number with its unit.
  Rows about workers or a table are left out if the run has none.
  """
  collects = status_text.collects_steps(status)
  return [
    _make_count_rows(status, collects),
    _make_rate_rows(status, collects),
    _make_return_rows(status, collects),
  ]


def _make_count_rows(
  status: run_status.RunStatus, collects: bool
) -> list[_Row]:
  """Returns the rows with counts of steps, items and snapshots.

  Args:
    status: the run's status.
    collects: whether the run has workers or external processes.
  """
  count, rate = status_text.format_count, status_text.format_rate
  replay, snapshots = status.replay, status.snapshots
  rows: list[_Row] = []
  if collects:
    rows.append(
      ("environment", count(status.env_steps), "steps",
       *_make_lost_cells(status.env_steps_lost))
    )  # fmt: skip
  rows.append(
    ("trainer", count(status.trainer_steps), "steps",
     *_make_lost_cells(status.trainer_steps_lost))
  )  # fmt: skip
  if collects:
    rows.append(
      ("items", rate(status.rates.items_per_s), "confirmed/s",
       *_make_lost_cells(status.items.lost))
    )  # fmt: skip
  if replay is not None:
    full = 100 * replay.size / replay.capacity if replay.capacity else 0
    rows.append(
      ("replay", count(replay.size),
       f"of {count(replay.capacity)} items{_count_shards(replay)}",
       count(full), "% full")
    )  # fmt: skip
  rows.append(
    ("snapshot", count(snapshots.age_s),
     _make_age_unit(snapshots.upload_failures), count(snapshots.written),
     "written")
  )  # fmt: skip
  return rows


def _make_rate_rows(status: run_status.RunStatus, collects: bool) -> list[_Row]:
  """Returns the rows with rates and their targets.

  Args:
    status: the run's status.
    collects: whether the run has workers or external processes.
  """
  count, decimal, rate = (
    status_text.format_count,
    status_text.format_decimal,
    status_text.format_rate,
  )
  rates, variables, replay = status.rates, status.variables, status.replay
  rows: list[_Row] = []
  if collects:
    rows.append(
      ("speed", rate(rates.env_steps_per_s), "steps/s",
       *status_text.describe_target(rate, rates.env_steps_per_s_target))
    )  # fmt: skip
  rows.append(
    ("learning", rate(rates.trainer_steps_per_s), "updates/s", "", "")
  )
  if replay is not None and replay.is_queue:
    rows.append(
      ("sampling", count(replay.size), "in queue", count(replay.sampled),
       "consumed")
    )  # fmt: skip
  elif replay is not None:
    rows.append(
      ("sampling", decimal(replay.samples_per_insert), "samples/insert",
       *status_text.describe_target(decimal, replay.samples_per_insert_target))
    )  # fmt: skip
  if collects:
    rows += [
      ("loading", rate(variables.loads_per_trainer_step), "loads/update",
       *status_text.describe_target(
         rate, variables.loads_per_trainer_step_target)),
      ("variables", decimal(variables.mean_age_s), "s old on average",
       count(variables.version), "version"),
    ]  # fmt: skip
  if status.proxy is not None:
    rows.append(
      ("proxy", decimal(status.proxy.bytes_up_per_s / 1e6), "MB/s to replay",
       count(status.proxy.connections), "streams")
    )  # fmt: skip
  return rows


def _make_return_rows(
  status: run_status.RunStatus, collects: bool
) -> list[_Row]:
  """Returns the rows with mean returns of training and evaluations.

  Args:
    status: the run's status.
    collects: whether the run has workers or external processes.
  """
  count, decimal = status_text.format_count, status_text.format_decimal
  evaluation, goal = status.evaluation, status_text.target_return(status)
  rows: list[_Row] = []
  if collects:
    rows.append(
      ("training", decimal(status.training_return), "mean return", "", "")
    )
  return [
    *rows,
    ("evaluation", decimal(evaluation.mean_return), "mean return",
     decimal(evaluation.recent_mean_return), "last 10"),
    ("best", decimal(evaluation.best_mean_return),
     f"of {count(evaluation.count)} so far",
     *(("", "") if goal is None
       else (decimal(goal), status_text.describe_target_label(status)))),
  ]  # fmt: skip


def _count_shards(replay: run_status.ReplayStatus) -> str:
  """Returns the number of replying shards, as ', 3/4 shards', or ''.

  It is '' if the run has only one table.
  """
  up = replay.shards_up
  return "" if up is None else f", {up}/{len(replay.shards)} shards"


def _make_lost_cells(number: int) -> tuple[_Cell, _Cell]:
  """Returns two cells: a number of lost steps or items, and 'lost'."""
  text = status_text.format_count(number)
  return rich.text.Text(text, _ALERT_STYLE if number else ""), "lost"


def _make_age_unit(failed: int) -> _Cell:
  """Returns the unit of the snapshot's age, and the count of failed uploads.

  Args:
    failed: number of uploads that failed.
  """
  if not failed:
    return "s old"
  return rich.text.Text.assemble(
    "s old, ",
    (f"{status_text.format_count(failed)} not uploaded", _ALERT_STYLE),
  )


def _make_measurement_table(
  blocks: Iterable[list[_Row]], spaced: bool
) -> rich.table.Table:
  """Returns a table with all rows of the measurements.

  Args:
    blocks: blocks of rows, from `_make_measurement_blocks`.
    spaced: whether to put an empty row between two blocks.
  """
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


def _is_stalled(status: run_status.RunStatus) -> bool:
  """Returns whether the watchdog has found that the run makes no progress."""
  return status.stalled_s is not None


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
  """Returns a table with time left, nodes, machines, restarts and failures.

  Args:
    status: the run's status.
    limits: texts of the limits to show, from `status_text.describe_limits`.
  """
  table = _make_labelled_table()
  label = "all of" if status_text.needs_all(status) else "time left"
  for time_left, limit in limits:
    table.add_row(label, f"{time_left} {limit}")
    label = ""
  nodes = [
    rich.text.Text(
      f"{role} {up}/{expected}", _ALERT_STYLE if up < expected else ""
    )
    for role, up, expected in status_text.list_nodes(status)
  ]
  table.add_row("nodes up", rich.columns.Columns(nodes, padding=(0, 2)))
  restarts = map(rich.text.Text, status_text.describe_restarts(status))
  machines = [
    rich.text.Text(text, "" if up else _ALERT_STYLE)
    for text, up in status_text.describe_machines(status)
  ]
  if machines:
    table.add_row("machines", rich.columns.Columns(machines, padding=(0, 2)))
  table.add_row("restarts", rich.columns.Columns(restarts, padding=(0, 2)))
  for text in status_text.describe_disk(status):
    table.add_row("disk", rich.text.Text(text, _ALERT_STYLE))
  for text in status_text.describe_failed_hooks(status):
    table.add_row(
      "hooks",
      rich.text.Text(text, _ALERT_STYLE, no_wrap=True, overflow="ellipsis"),
    )
  return table


def _make_diagnosis_table(
  status: run_status.RunStatus, has_ended: bool
) -> rich.table.Table:
  """Returns a table with one row: the most important sentence.

  It is the reason to stop, the waiting nodes, or else the newest advice. A run
  that is stopping may wait for its last snapshot.

  Args:
    status: the run's status.
    has_ended: whether the run is stopping or has stopped.
  """
  table = _make_labelled_table()
  if has_ended and (status.phase == "stopped" or not status.waiting):
    table.add_row(
      "because", status_text.describe_reason(status.stopped_because)
    )
  elif status.advice and not status.waiting:
    table.add_row("advice", rich.text.Text(status.advice[-1], _ALERT_STYLE))
  else:
    waiting = rich.text.Text(
      status.waiting or "none", _ALERT_STYLE if _is_stalled(status) else ""
    )
    table.add_row("waiting", waiting)
  return table
