"""Panel: a run's status on the terminal, while it runs."""

from collections.abc import Iterable, Mapping
from typing import Any

import rich.box
import rich.columns
import rich.console
import rich.live
import rich.panel
import rich.table
import rich.text

from launch.display import status_text

_WIDTH = 80  # columns, where there are as many
_ROOMY = 70  # columns that leave some for a margin
_LINE_PERIOD_S = 5.0  # seconds of the run between plain lines

_MISSED = "yellow"  # a node that is not up, what is lost, a stall

_Cell = str | rich.text.Text
_Row = tuple[_Cell, ...]

_FRAME_LINES = 2
# What a sentence about a wait may take, and one about a stall.
_WAIT_LINES, _STALL_LINES = 2, 5

_PHASE_STYLES = {
  "starting": "yellow",
  "running": "green",
  "paused": "yellow",
  "stopping": "yellow",
  "stopped": "blue",
}


class Panel:
  """Shows a status in place; where there is no terminal, in plain lines.

  with Panel() as panel:
    while running:
      panel.update(control.status())
  """

  def __init__(self, console: rich.console.Console | None = None):
    """Shows nothing yet.

    Args:
      console: Where to; by default standard output.
    """
    self._console = console or rich.console.Console()
    self._live: rich.live.Live | None = None
    self._shown: Mapping[str, Any] = {}  # the status of the last plain line
    self._line_due_s = 0.0

  def __enter__(self) -> "Panel":
    return self

  def __exit__(self, *_: object) -> None:
    self.close()

  def update(self, status: Mapping[str, Any]) -> None:
    """Shows `status`, whatever of it is known."""
    if not self._console.is_terminal or self._console.is_dumb_terminal:
      self._print_lines(status)
      return
    live = self._live
    if live is None:
      live = rich.live.Live(console=self._console, auto_refresh=False)
      live.start()
      self._live = live
    live.update(render(status, self._console), refresh=True)

  def close(self) -> None:
    """Leaves the last status on the terminal."""
    if self._live is not None:
      self._live.stop()
      self._live = None

  def _print_lines(self, status: Mapping[str, Any]) -> None:
    lines = []
    wall_s = status_text.finite(status.get("wall_s")) or 0.0
    if status.get("phase") != self._shown.get("phase"):
      lines.append(status_text.phase_line(status))
    evaluations = status_text.finite(status.get("evaluations")) or 0
    before = status_text.finite(self._shown.get("evaluations")) or 0
    # Those of a run that is resumed were told of in its last life.
    if evaluations > before and status.get("eval_episodes"):
      lines.append(status_text.evaluation_line(status))
    if wall_s >= self._line_due_s or status.get("phase") == "stopped":
      lines.append(status_text.progress_line(status))
      self._line_due_s = wall_s + _LINE_PERIOD_S
    self._shown = dict(status)
    for line in lines:
      # Unwrapped: a line in a file is as long as it is.
      self._console.print(line, soft_wrap=True, markup=False, highlight=False)


def render(
  status: Mapping[str, Any], console: rich.console.Console
) -> rich.console.RenderableType:
  """Returns a status as rich draws it.

  Its rows are those of the limits and roles that a run has, known or not, and
  the one whose length varies is the last: nothing jumps. Where a terminal has
  few rows, there are no empty ones, and a stall takes those of the time left.
  """
  blocks = _numbers(status)
  over = status.get("phase") in ("stopping", "stopped")
  limits = [] if over else list(status_text.limits(status))
  room = console.height - _FRAME_LINES - sum(map(len, blocks))
  # Nodes, restarts, and who waits.
  room -= 2 + bool(status.get("machines"))
  room -= _STALL_LINES if _stalled(status) else _WAIT_LINES
  if _stalled(status) and room < len(limits):
    limits = []
  room -= len(limits)
  gaps = len(blocks)  # between the blocks, and before the sentences
  width = min(_WIDTH, console.width)
  return rich.panel.Panel(
    rich.console.Group(
      _table(blocks, spaced=room >= gaps),
      *([rich.text.Text()] if room >= gaps else []),
      _sentences(status, limits, over),
    ),
    title=_title(status, console.options.ascii_only),
    title_align="left",
    box=rich.box.ROUNDED,
    border_style="dim",
    padding=(int(room >= gaps + 2), 2 if width >= _ROOMY else 1),
    width=width,
  )


def _title(status: Mapping[str, Any], ascii_only: bool) -> rich.text.Text:
  phase = str(status.get("phase") or "starting")
  mode = status_text.mode(status)
  return rich.text.Text.assemble(
    (str(status.get("name") or "run"), "bold"),
    "  ",
    (f"{'*' if ascii_only else '●'} {phase}", _PHASE_STYLES.get(phase, "")),
    "  ",
    f"{mode}  " if mode else "",
    status_text.clock(status.get("wall_s")),
    style="not dim",
  )


def _numbers(status: Mapping[str, Any]) -> list[list[_Row]]:
  """What is measured: label, number, unit, and what to compare it with."""
  count, decimal, rate = (
    status_text.count,
    status_text.decimal,
    status_text.rate,
  )
  get = status.get
  goal = status_text.target(status)
  size, capacity = map(
    status_text.finite, (get("replay_size"), get("replay_capacity"))
  )
  steps_asked = get("environment_steps_per_s_asked")
  samples_asked = get("samples_per_insert_asked")
  loads_asked = get("variable_loads_per_trainer_step_asked")
  return [
    [
      ("environment", count(get("env_steps")), "steps",
       *_lost(get("env_steps_lost"))),
      ("trainer", count(get("trainer_steps")), "steps",
       *_lost(get("trainer_steps_lost"))),
      ("items", rate(get("items_per_s")), "confirmed/s",
       *_lost(get("items_lost"))),
      ("replay", count(size), f"of {count(capacity)} items{_shards(status)}",
       count(100 * size / capacity if size and capacity else size), "% full"),
      ("snapshot", count(get("snapshot_age_s")),
       _uploads(get("snapshot_upload_failures")),
       count(get("snapshots")), "written"),
    ],
    [
      ("speed", rate(get("env_steps_per_s")), "steps/s",
       *status_text.asked(rate, steps_asked)),
      ("learning", rate(get("trainer_steps_per_s")), "updates/s", "", ""),
      ("sampling", decimal(get("samples_per_insert")), "samples/insert",
       *status_text.asked(decimal, samples_asked)),
      ("loading", rate(get("variable_loads_per_trainer_step")),
       "loads/update", *status_text.asked(rate, loads_asked)),
      ("variables", decimal(get("variables_age_s")), "s old on average",
       count(get("variables_version")), "version"),
      *_proxy(status),
    ],
    [
      ("training", decimal(get("training_return")), "mean return", "", ""),
      ("evaluation", decimal(get("eval_return")), "mean return",
       count(get("eval_episodes")), "episodes"),
      ("best", decimal(get("best_eval_return")),
       f"of {count(get('evaluations'))} so far",
       *(("", "") if goal is None else (decimal(goal), "target"))),
    ],
  ]  # fmt: skip


def _shards(status: Mapping[str, Any]) -> str:
  """How many shards of the replay answer, where there are several."""
  shards, up = status.get("replay_shards"), status.get("replay_shards_up")
  return f", {up}/{len(shards)} shards" if shards and up is not None else ""


def _lost(number: Any) -> tuple[_Cell, _Cell]:
  style = _MISSED if status_text.finite(number) else ""
  return rich.text.Text(status_text.count(number), style), "lost"


def _uploads(failed: Any) -> _Cell:
  if not status_text.finite(failed):
    return "s old"
  return rich.text.Text.assemble(
    "s old, ", (f"{status_text.count(failed)} not uploaded", _MISSED)
  )


def _proxy(status: Mapping[str, Any]) -> list[_Row]:
  """What the proxies send on."""
  proxy = status.get("proxy")
  if not proxy:
    return []
  sent = status_text.finite(proxy.get("bytes_up_per_s"))
  return [
    ("proxy", status_text.decimal(None if sent is None else sent / 1e6),
     "MB/s to replay", status_text.count(proxy.get("connections")), "streams"),
  ]  # fmt: skip


def _table(blocks: Iterable[list[_Row]], spaced: bool) -> rich.table.Table:
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


def _stalled(status: Mapping[str, Any]) -> bool:
  return status_text.finite(status.get("stalled_s")) is not None


def _sentences(
  status: Mapping[str, Any], limits: Iterable[tuple[str, str]], over: bool
) -> rich.table.Table:
  """What is left, who is up, who had to come back, and who waits."""
  table = rich.table.Table.grid(padding=(0, 1), expand=True)
  table.add_column(style="dim", min_width=11, no_wrap=True)
  table.add_column(ratio=1)
  label = "time left"
  for time_left, limit in limits:
    table.add_row(label, f"{time_left} {limit}")
    label = ""
  nodes = [
    rich.text.Text(f"{role} {up}/{expected}", _MISSED if up < expected else "")
    for role, up, expected in status_text.nodes(status)
  ]
  table.add_row("nodes up", rich.columns.Columns(nodes, padding=(0, 2)))
  restarts = map(rich.text.Text, status_text.restarts(status))
  machines = [
    rich.text.Text(text, "" if up else _MISSED)
    for text, up in status_text.machines(status)
  ]
  if machines:
    table.add_row("machines", rich.columns.Columns(machines, padding=(0, 2)))
  table.add_row("restarts", rich.columns.Columns(restarts, padding=(0, 2)))
  if over:
    table.add_row("because", status_text.reason(status))
  else:
    waiting = rich.text.Text(
      str(status.get("waiting") or "nobody"),
      _MISSED if _stalled(status) else "",
    )
    table.add_row("waiting", waiting)
  return table
