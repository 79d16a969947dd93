"""Report: shows the scores of a sweep in tables, CSV files and a picture."""

import csv
import io
import typing
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import rich.box
import rich.table
import rich.text

from slipway.launch.runs import comparison, statistics
from slipway.launch.sweeps import plan as plan_lib
from slipway.launch.sweeps import scoring, study

# Settings whose curves are drawn, those with the highest scores.
_MAX_CURVES = 6


def make_games_table(scores: Sequence[scoring.GamesScore]) -> rich.table.Table:
  """Returns the measures over all games as a table.

  Column 'games' shows how many of all games have a score; 'runs' how many of
  all runs have ended.
  """
  is_complete = all(score.done == score.planned for score in scores)
  which = "all games" if is_complete else "games so far"
  table = _make_table("setting", "games", "runs", "IQM", "95 % interval")
  table.title = f"{which}, human-normalized"
  for score in scores:
    table.add_row(
      _wrap(score.name),
      f"{score.games}/{score.planned_games}",
      f"{score.done}/{score.planned}",
      *_show(score.iqm, ".3f"),
    )
  return table


def make_table(
  scores: Sequence[scoring.SettingScore], plan: plan_lib.Plan, rows: int
) -> rich.table.Table:
  """Returns the `rows` settings with the highest scores as a table.

  Column 'beats 0' has the probability of a higher score than setting 0, 'met'
  the runs that have met the target, with the median of their steps, and 'held'
  how often they were at the target from then on.
  """
  seeds, has_target = len(plan.seeds), np.isfinite(plan.target)
  target = [f"met {plan.target:,g}", "held"] if has_target else []
  table = _make_table(
    *("#", "setting", "runs", "IQM", "95 % interval", "beats 0", *target)
  )
  ranked = _rank(scores)
  for score in ranked[:rows]:
    steps = score.target_steps
    at = "" if np.isnan(steps) else f" at {steps / 1_000:,.0f}k"
    met = [f"{score.at_target}/{seeds}{at}", _format(score.held, ".0%")]
    table.add_row(
      str(score.index),
      _wrap(score.name),
      f"{score.done}/{seeds}",
      *_show(score.iqm, ",.1f"),
      _format(score.improvement.value, ".0%"),
      *(met if has_target else []),
    )
  if len(ranked) > rows:
    table.caption = f"and {len(ranked) - rows} more settings"
  return table


def write(sweep: study.Study, scores: scoring.Scores) -> list[str]:
  """Writes runs.csv, settings.csv and sweep.png, and returns the files' names.

  games.csv is written if several Atari games are trained, and the picture once
  a run has ended.

  Raises:
    OSError: a file can't be written.
    ValueError: a run's curves.csv can't be read.
  """
  settings = sweep.settings
  names = {name: "" for setting in settings for name in setting}
  values = [names | setting for setting in settings]
  files = {
    "settings.csv": _to_csv(
      {"setting": x.index, **values[x.index]}
      | {"pruned": sweep.is_pruned(x.index), **_flatten(x)}
      for x in scores.settings
    ),
    "runs.csv": _to_csv(
      {"setting": x.run.setting, "seed": x.run.seed}
      | {**values[x.run.setting], **_flatten(x)}
      for group in scores.runs
      for x in group
    ),
  }
  if scores.games:
    files["games.csv"] = _to_csv(
      {"setting": x.name, **_flatten(x)} for x in scores.games
    )
  if any(np.isfinite(score.iqm.value) for score in scores.settings):
    files["sweep.png"] = _draw(sweep.plan, scores)
  for name, content in files.items():
    sweep.write(name, content)
  return [*files]


def _make_table(*columns: str) -> rich.table.Table:
  """Returns a table whose column 'setting' is text, and others are numbers."""
  table = rich.table.Table(
    box=rich.box.SIMPLE_HEAD, pad_edge=False, title_justify="left"
  )
  text: typing.Any = {"min_width": 14, "overflow": "fold"}
  number: typing.Any = {"justify": "right", "no_wrap": True}
  for column in columns:
    table.add_column(column, **(text if column == "setting" else number))
  return table


def _wrap(name: str) -> rich.text.Text:
  """Returns a setting with a line per field."""
  return rich.text.Text(name.replace(" ", "\n"), overflow="fold")


def _rank(scores: Sequence[scoring.SettingScore]) -> list[scoring.SettingScore]:
  """Returns the settings by their IQM, the highest first; nan comes last."""
  return sorted(scores, key=lambda x: (np.isnan(x.iqm.value), -x.iqm.value))


def _show(measure: scoring.Measure, spec: str) -> tuple[str, str]:
  """Returns a measure and its interval as texts."""
  interval = statistics.format_interval(measure[1:], spec)
  return _format(measure.value, spec), interval


def _format(value: float, spec: str) -> str:
  """Returns a number as text, or '' for nan."""
  return "" if np.isnan(value) else f"{value:{spec}}"


@comparison.default_style()
def _draw(plan: plan_lib.Plan, scores: scoring.Scores) -> bytes:
  """Draws the curves of the best settings, and the measures of all, as PNG."""
  # Imported late, because the import takes a second.
  from matplotlib import figure

  ranked = [x for x in _rank(scores.settings) if np.isfinite(x.iqm.value)]
  names = [f"{score.index}: {score.name}" for score in ranked]
  height = 0.7 + 0.28 * len(ranked)
  picture = figure.Figure(
    figsize=(12.6, 5.0 + height), dpi=150, layout="constrained"
  )
  parts: typing.Any = picture.subfigures(2, 1, height_ratios=(5.0, height))
  above, below = parts
  groups = []
  for name, score in zip(names[:_MAX_CURVES], ranked, strict=False):
    ended = [x for x in scores.runs[score.index] if x.is_done]
    known = [x.run for x in ended if np.isfinite(x.score)]
    rows = [run.read_evaluations() for run in known]
    groups.append(comparison.Group(name, rows))
  comparison.draw_panels(above, groups)
  panels = [("iqm", "score: final return, IQM")]
  if np.isfinite(plan.target):
    panels.append(("gap", f"optimality gap to {plan.target:,g}"))
  if len(ranked) > 1:
    panels.append(("improvement", "probability of a higher score than 0"))
  all_axes = below.subplots(1, len(panels), sharey=True, squeeze=False)[0]
  for axes, (measure, label) in zip(all_axes, panels, strict=True):
    for row, score in enumerate(ranked):
      value, low, high = getattr(score, measure)
      color = comparison.color(row) if row < _MAX_CURVES else "#6b7280"
      axes.hlines(row, low, high, color=color, linewidth=5, alpha=0.35)
      axes.plot(value, row, "o", color=color, markersize=5)
    if measure == "improvement":
      axes.axvline(0.5, color="#9ca3af", linestyle="--", linewidth=1)
      axes.set_xlim(-0.02, 1.02)
    axes.set_xlabel(label)
    axes.grid(axis="x", color="#e4e7ea", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
  all_axes[0].set_yticks(range(len(ranked)), names)
  all_axes[0].set_ylim(len(ranked) - 0.5, -0.5)
  return comparison.to_bytes(picture)


def _flatten(score: scoring.Score) -> dict[str, typing.Any]:
  """Returns a score by column; a measure has columns for its interval, too."""
  row = {}
  for name, value in score._asdict().items():
    if isinstance(value, scoring.Measure):
      row |= {name: value.value, f"{name}_low": value.low}
      row[f"{name}_high"] = value.high
    elif name not in ("run", "index", "name"):
      row[name] = value
  return row


def _to_csv(rows: Iterable[Mapping[str, typing.Any]]) -> bytes:
  """Returns CSV, in which nan is '' and floats have ten significant digits."""
  text = io.StringIO()
  rows = [*rows]
  writer = csv.DictWriter(text, [*rows[0]], lineterminator="\n")
  writer.writeheader()
  for row in rows:
    writer.writerow(
      {
        name: _format(x, ".10g") if isinstance(x, float) else x
        for name, x in row.items()
      }
    )
  return text.getvalue().encode()
