"""Report: shows the scores of a sweep in tables, CSV files and a picture."""

import csv
import io
import typing
from collections.abc import Sequence

import numpy as np
import rich.box
import rich.table
import rich.text

from slipway.launch.runs import comparison, curves, statistics
from slipway.launch.sweeps import scoring, sweep_folder

# Settings whose curves are drawn, those with the highest scores.
_MAX_CURVES = 6
# Fields of `SettingScore` that are measures, in the order of settings.csv.
_MEASURES = ("iqm", "gap", "improvement")


def make_games_table(scores: Sequence[scoring.GamesScore]) -> rich.table.Table:
  """Returns the measures over all games as a table.

  Column 'games' has those with a score and all; 'runs' has those that have
  ended and all.
  """
  is_complete = all(score.done == score.planned for score in scores)
  table = rich.table.Table(
    box=rich.box.SIMPLE_HEAD,
    pad_edge=False,
    title=f"{'all games' if is_complete else 'games so far'}, human-normalized",
    title_justify="left",
  )
  table.add_column("setting", min_width=14, overflow="fold")
  for column in ("games", "runs", "IQM", "95 % interval"):
    table.add_column(column, justify="right", no_wrap=True)
  for score in scores:
    table.add_row(
      rich.text.Text(score.name.replace(" ", "\n"), overflow="fold"),
      f"{score.games}/{score.planned_games}",
      f"{score.done}/{score.planned}",
      f"{score.iqm.value:.3f}",
      statistics.format_interval((score.iqm.low, score.iqm.high), ".3f"),
    )
  return table


def make_table(
  scores: Sequence[scoring.SettingScore], plan: sweep_folder.Plan, rows: int
) -> rich.table.Table:
  """Returns the settings with the highest scores as a table.

  Column 'beats 0' has the probability of a higher score than setting 0, 'met'
  the runs that have met the target, with the median of their steps, and 'held'
  how often they were at the target from then on.

  Args:
    scores: the settings.
    plan: the plan.
    rows: largest number of settings to show.
  """
  seeds, has_target = len(plan.seeds), np.isfinite(plan.target)
  table = rich.table.Table(box=rich.box.SIMPLE_HEAD, pad_edge=False)
  table.add_column("#", justify="right")
  table.add_column("setting", min_width=14, overflow="fold")
  target = [f"met {plan.target:,g}", "held"] if has_target else []
  for column in ("runs", "IQM", "95 % interval", "beats 0", *target):
    table.add_column(column, justify="right", no_wrap=True)
  ranked = _rank(scores)
  for score in ranked[:rows]:
    steps = score.target_steps
    at = "" if np.isnan(steps) else f" at {steps / 1_000:,.0f}k"
    table.add_row(
      str(score.index),
      rich.text.Text(score.name.replace(" ", "\n"), overflow="fold"),
      f"{score.done}/{seeds}",
      _format(score.iqm.value, ",.1f"),
      statistics.format_interval((score.iqm.low, score.iqm.high), ",.1f"),
      _format(score.improvement.value, ".0%"),
      *(
        [f"{score.at_target}/{seeds}{at}", _format(score.held, ".0%")]
        if has_target
        else []
      ),
    )
  if len(ranked) > rows:
    table.caption = f"and {len(ranked) - rows} more settings"
  return table


def write(
  folder: sweep_folder.SweepFolder,
  plan: sweep_folder.Plan,
  runs: Sequence[Sequence[scoring.RunScore]],
) -> list[str]:
  """Writes the results to the sweep's folder.

  These are runs.csv, settings.csv, games.csv if several Atari games are
  trained, and sweep.png if a run has ended.

  Args:
    folder: the sweep's folder.
    plan: the plan, with S settings.
    runs: [S] lists of the runs' scores.

  Returns:
    The names of the files.

  Raises:
    OSError: a file can't be written.
    ValueError: a run's curves.csv can't be read.
  """
  scores = scoring.score_settings(plan, runs)
  names = [*dict.fromkeys(name for x in plan.settings for name in x)]
  folder.write(
    "runs.csv",
    _to_csv(
      ["setting", "seed", *names, *scoring.RunScore._fields[1:]],
      [
        [
          x.run.setting,
          x.run.seed,
          *(plan.settings[x.run.setting].get(name, "") for name in names),
          *x[1:],
        ]
        for group in runs
        for x in group
      ],
    ),
  )
  folder.write(
    "settings.csv",
    _to_csv(
      [
        *("setting", *names, "done", "at_target", "target_steps", "held"),
        *(f"{x}{bound}" for x in _MEASURES for bound in ("", "_low", "_high")),
        "human_normalized",
      ],
      [
        [
          x.index,
          *(plan.settings[x.index].get(name, "") for name in names),
          *(x.done, x.at_target, x.target_steps, x.held),
          *(value for name in _MEASURES for value in getattr(x, name)),
          x.human_normalized,
        ]
        for x in scores
      ],
    ),
  )
  files = ["settings.csv", "runs.csv"]
  if games := scoring.score_games(plan, runs):
    header = ["setting", *scoring.GamesScore._fields[1:], "iqm_low", "iqm_high"]
    rows = [[*score[:-1], *score.iqm] for score in games]
    folder.write("games.csv", _to_csv(header, rows))
    files.append("games.csv")
  if any(np.isfinite(score.iqm.value) for score in scores):
    folder.write("sweep.png", _draw(plan, scores, runs))
    files.append("sweep.png")
  return files


def _rank(scores: Sequence[scoring.SettingScore]) -> list[scoring.SettingScore]:
  """Returns the settings by their IQM, the highest first; nan comes last."""
  return sorted(scores, key=lambda x: (np.isnan(x.iqm.value), -x.iqm.value))


def _format(value: float, spec: str) -> str:
  """Returns a number as text, or '' for nan."""
  return "" if np.isnan(value) else f"{value:{spec}}"


def _draw(
  plan: sweep_folder.Plan,
  scores: Sequence[scoring.SettingScore],
  runs: Sequence[Sequence[scoring.RunScore]],
) -> bytes:
  """Draws the curves of the best settings, and the measures of all.

  Returns:
    The picture, as the bytes of a PNG file.
  """
  # Imported late, because the import takes a second.
  from matplotlib import figure

  ranked = [score for score in _rank(scores) if np.isfinite(score.iqm.value)]
  height = 0.7 + 0.28 * len(ranked)
  picture = figure.Figure(
    figsize=(12.6, 5.0 + height), dpi=150, layout="constrained"
  )
  parts: typing.Any = picture.subfigures(2, 1, height_ratios=(5.0, height))
  above, below = parts
  groups = [
    comparison.Group(
      f"{score.index}: {score.name}",
      [
        x.run.read_evaluations()
        for x in runs[score.index]
        if x.is_done and np.isfinite(x.score)
      ],
    )
    for score in ranked[:_MAX_CURVES]
  ]
  comparison.draw_panels(above, groups)
  panels = [("iqm", "score: final return, IQM")]
  if np.isfinite(plan.target):
    panels.append(("gap", f"optimality gap to {plan.target:,g}"))
  if len(ranked) > 1:
    panels.append(("improvement", "probability of a higher score than 0"))
  all_axes = below.subplots(1, len(panels), sharey=True, squeeze=False)[0]
  for axes, (name, label) in zip(all_axes, panels, strict=True):
    for row, score in enumerate(ranked):
      measure: scoring.Measure = getattr(score, name)
      color = comparison.color(row) if row < _MAX_CURVES else "#6b7280"
      axes.hlines(
        row,
        measure.low,
        measure.high,
        color=color,
        linewidth=5,
        alpha=0.35,
      )
      axes.plot(measure.value, row, "o", color=color, markersize=5)
    if name == "improvement":
      axes.axvline(0.5, color="#9ca3af", linestyle="--", linewidth=1)
      axes.set_xlim(-0.02, 1.02)
    axes.set_xlabel(label)
    axes.grid(axis="x", color="#e4e7ea", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
  all_axes[0].set_yticks(
    range(len(ranked)), [f"{x.index}: {x.name}" for x in ranked]
  )
  all_axes[0].set_ylim(len(ranked) - 0.5, -0.5)
  return curves.to_bytes(picture)


def _to_csv(
  header: Sequence[str], rows: Sequence[Sequence[typing.Any]]
) -> bytes:
  """Returns a header and rows as CSV."""
  text = io.StringIO()
  writer = csv.writer(text, lineterminator="\n")
  writer.writerows([header, *(map(_to_cell, row) for row in rows)])
  return text.getvalue().encode()


def _to_cell(value: typing.Any) -> typing.Any:
  """Returns a cell: '' for nan; other floats have ten significant digits."""
  return _format(value, ".10g") if isinstance(value, float) else value
