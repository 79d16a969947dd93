"""Picture: draws speeds as bars, and learning times as a dot per seed."""

import pathlib
import statistics
from collections.abc import Sequence

from benchmarks import report
from benchmarks.peers import entries

_OURS = "#1f6fb4"
_THEIRS = "#9aa3ab"
_GRID = "#e4e7ea"
# The columns that are drawn as bars, and their labels.
_RATES = (
  ("env_steps_per_s", "environment steps per second"),
  ("env_steps_per_cpu_s", "environment steps per CPU second"),
)


def draw(task: str, raw: Sequence[report.Row], path: pathlib.Path) -> None:
  """Draws a task's measurements, and saves the picture as PNG.

  It has one panel per rate and one for the seconds to the target. Without
  measurements, no file is written.

  Args:
    task: a name from `entries.TASKS`.
    raw: rows of measurements, from `rounds.run`.
    path: path of the PNG file.
  """
  from matplotlib import figure

  panels = [
    (column, label)
    for column, label in _RATES
    if any(row[column] is not None for row in raw)
  ]
  learned = any(
    row["seconds"] is not None or row["note"].startswith(">") for row in raw
  )
  count = len(panels) + learned
  if not count:
    return
  path.parent.mkdir(parents=True, exist_ok=True)
  picture = figure.Figure(
    figsize=(
      5.2 + 3.2 * len(panels[1:]) + 4.8 * (learned and bool(panels)),
      4.6,
    ),
    dpi=150,
    layout="constrained",
  )
  all_axes = picture.subplots(1, count, squeeze=False)[0]
  for axes, (column, label) in zip(all_axes, panels, strict=False):
    _draw_bars(axes, raw, column, label)
    if axes is not all_axes[0]:  # the same names
      axes.tick_params(labelleft=False)
  if learned:
    _draw_dots(all_axes[-1], raw, task)
  picture.savefig(path, format="png")


def _draw_bars(axes, raw: Sequence[report.Row], column: str, label: str):
  """Draws the median of a column as one bar per entry, with its value."""
  rows = [row for row in raw if row[column] is not None]
  names = list(dict.fromkeys(row["entry"] for row in rows))
  values = [
    statistics.median(row[column] for row in rows if row["entry"] == name)
    for name in names
  ]
  axes.barh(names, values, color=[_colour(name) for name in names], height=0.7)
  for place, value in enumerate(values):
    axes.annotate(
      f"{value:,.0f}",
      (value, place),
      xytext=(3, 0),
      textcoords="offset points",
      va="center",
      fontsize=7.5,
    )
  axes.margins(x=0.18)
  _format_axes(axes, label)


def _draw_dots(axes, raw: Sequence[report.Row], task: str):
  """Draws a dot per run at its seconds to the target, or an arrow for the cap.

  Args:
    axes: axes of the panel.
    raw: rows of measurements, from `rounds.run`.
    task: a name from `entries.TASKS`.
  """
  rows = [
    row
    for row in raw
    if row["measured"] == "learning"
    and (row["seconds"] is not None or row["note"].startswith(">"))
  ]
  names = list(dict.fromkeys(row["entry"] for row in rows))
  cap_s = entries.CAPS_S[task]
  for row in rows:
    reached = row["seconds"] is not None
    axes.plot(
      row["seconds"] if reached else cap_s,
      names.index(row["entry"]),
      marker="o" if reached else ">",
      markersize=6,
      color=_colour(row["entry"]),
      markerfacecolor=_colour(row["entry"]) if reached else "white",
      alpha=0.85,
      linestyle="none",
      clip_on=False,
    )
  axes.set_yticks(range(len(names)), names)
  slowest_s = max((row["seconds"] or cap_s) for row in rows)
  axes.set_xlim(0, min(cap_s, 1.1 * slowest_s))
  axes.set_ylim(len(names) - 0.5, -0.5)
  limit = "; arrow: over the limit" if _has_missed_target(rows) else ""
  until = (
    f"a return of {entries.TARGETS[task]:g}"
    if task in entries.TARGETS
    else f"{entries.STEPS[task]:,} environment steps"
  )
  _format_axes(axes, f"seconds to {until}{limit}")


def _has_missed_target(rows: Sequence[report.Row]) -> bool:
  return any(row["seconds"] is None for row in rows)


def _format_axes(axes, label: str) -> None:
  axes.set_xlabel(label, fontsize=8.5)
  axes.tick_params(labelsize=8)
  if not axes.yaxis_inverted():
    axes.invert_yaxis()  # the first entry above
  axes.grid(axis="x", color=_GRID, linewidth=0.8)
  axes.set_axisbelow(True)
  axes.spines[["top", "right"]].set_visible(False)


def _colour(name: str) -> str:
  ours = {entry.name for entry in entries.OURS.values()}
  return _OURS if name in ours else _THEIRS
