"""Report: compares the settings of a sweep in a table, CSV files and a picture.

The score of a run is its final return; see `curves.final_return`.
"""

import csv
import functools
import io
import typing
from collections.abc import Sequence

import numpy as np
import rich.box
import rich.table
import rich.text

from slipway.environments import atari_scores
from slipway.launch.runs import comparison, curves, statistics
from slipway.launch.sweeps import space, sweep_folder

# Settings whose curves are drawn, those with the highest scores.
_MAX_CURVES = 6
# Fields by which settings differ that train other games.
_GAME_FIELDS = ("environment.game", "environment.name")


class RunScore(typing.NamedTuple):
  """What a run has reached so far.

  Attributes:
    run: the run.
    score: mean return of the evaluations in the last tenth of the environment
      steps, nan before the first evaluation.
    human_normalized: the score of an Atari game, human-normalized; else nan.
    best: highest mean return, nan before the first evaluation. In a run that
      has stopped, it is of a repetition with other episodes, since the highest
      of many means is too high by chance.
    env_steps: environment steps at the last evaluation.
    wall_s: seconds at the last evaluation.
    target_steps: environment steps at the evaluation that has met the target,
      nan if none has.
    held: part of the evaluations that are at the target, from the first of
      those that have met it on; nan if none has.
    is_done: whether the run has ended at one of its limits.
  """

  run: sweep_folder.SweepRun
  score: float
  human_normalized: float
  best: float
  env_steps: float
  wall_s: float
  target_steps: float
  held: float
  is_done: bool


class SettingScore(typing.NamedTuple):
  """What the runs of a setting have reached, by the measures of `statistics`.

  Only runs that have ended at a limit count. A single one has no intervals.

  Attributes:
    index: index of the setting.
    name: the setting as text.
    done: number of runs that have ended at a limit.
    iqm: interquartile mean of the scores; nan without a score, as all others.
    iqm_interval: its 95 % interval.
    human_normalized: the IQM, human-normalized; nan if this is no Atari game.
    gap: optimality gap to the target; nan without a target.
    gap_interval: its 95 % interval.
    improvement: probability that a run scores more than one of setting 0; nan
      for setting 0.
    improvement_interval: its 95 % interval.
    at_target: number of runs that have met the target.
    target_steps: median of their environment steps until then, or nan.
    held: mean over these runs of `RunScore.held`, or nan.
  """

  index: int
  name: str
  done: int
  iqm: float
  iqm_interval: tuple[float, float]
  human_normalized: float
  gap: float
  gap_interval: tuple[float, float]
  improvement: float
  improvement_interval: tuple[float, float]
  at_target: int
  target_steps: float
  held: float


class GamesScore(typing.NamedTuple):
  """What settings that differ only in the Atari game have reached together.

  Attributes:
    name: what the settings have in common, as text.
    games: number of games with a score, that of a run that has ended at a
      limit.
    planned_games: number of games of the settings so far. Those without a
      human-normalized score, such as CartPole, never count in `games`.
    done: number of runs that have ended at a limit.
    planned: number of runs of the settings so far.
    iqm: interquartile mean of the human-normalized scores of the `done` runs.
    iqm_interval: its stratified 95 % interval; nan if all games have one seed.
  """

  name: str
  games: int
  planned_games: int
  done: int
  planned: int
  iqm: float
  iqm_interval: tuple[float, float]


def score_run(
  run: sweep_folder.SweepRun, environment: str, target: float, evaluations: int
) -> RunScore:
  """Reads what a run has reached.

  Args:
    run: the run, which may be active or not begun.
    environment: gymnasium's id of its environment.
    target: mean return of the target, or infinity.
    evaluations: number of evaluations in a row that meet the target.

  Raises:
    ValueError: the run's curves.csv can't be read.
  """
  rows = run.read_evaluations()
  returns = rows["eval_return"]
  if not len(returns):
    none = (np.nan, np.nan, np.nan)
    return RunScore(run, *none, 0.0, 0.0, np.nan, np.nan, run.is_done())
  steps = rows["env_steps"]
  score = curves.final_return(steps, returns)
  summary = run.read_summary()
  repeated = summary.best_eval_return if summary else None
  at_target = returns >= target
  met = np.convolve(at_target, np.ones(evaluations), "valid")
  first = np.flatnonzero(met == evaluations)
  return RunScore(
    run,
    score,
    atari_scores.normalize(environment, score),
    float(returns.max()) if repeated is None else repeated,
    steps[-1],
    rows["wall_s"][-1],
    steps[first[0] + evaluations - 1] if len(first) else np.nan,
    float(at_target[first[0] :].mean()) if len(first) else np.nan,
    run.is_done(),
  )


def score_settings(
  plan: sweep_folder.Plan, runs: Sequence[Sequence[RunScore]]
) -> list[SettingScore]:
  """Returns the measures of each setting.

  Args:
    plan: the plan, with S settings.
    runs: [S] lists of the runs' scores.
  """
  scores = [
    np.array([x.score for x in group if x.is_done and np.isfinite(x.score)])
    for group in runs
  ]
  return [
    _score_setting(plan, index, group, scores)
    for index, group in enumerate(runs)
  ]


def score_games(
  plan: sweep_folder.Plan, runs: Sequence[Sequence[RunScore]]
) -> list[GamesScore]:
  """Returns the measures over all games of settings that differ in the game.

  Several settings with the same game, which Optuna may choose, count as one.

  Args:
    plan: the plan, with S settings.
    runs: [S] lists of the runs' scores.

  Returns:
    The measures, the highest first; none if fewer than two games have a score.
  """
  # The runs of each game, by what the settings have in common, and by game.
  groups: dict[str, dict[str, list[RunScore]]] = {}
  for setting, group in zip(plan.settings, runs, strict=True):
    common = {x: y for x, y in setting.items() if x not in _GAME_FIELDS}
    game = {x: y for x, y in setting.items() if x in _GAME_FIELDS}
    if game:
      games = groups.setdefault(space.describe(common), {})
      games.setdefault(space.describe(game), []).extend(group)
  found = []
  for name, planned in groups.items():
    games = [x for x in map(_list_human_normalized, planned.values()) if len(x)]
    if len(games) < 2:
      continue
    measure, scores = statistics.interquartile_mean, np.concatenate(games)
    low, high = statistics.stratified_interval(measure, games)
    found.append(
      GamesScore(
        name,
        len(games),
        len(planned),
        sum(run.is_done for group in planned.values() for run in group),
        sum(map(len, planned.values())),
        float(measure(scores)),
        (float(low), float(high)),
      )
    )
  return sorted(found, key=lambda x: -x.iqm)


def _list_human_normalized(runs: Sequence[RunScore]) -> np.ndarray:
  """Returns the human-normalized scores [R] of runs that have ended."""
  scores = [x.human_normalized for x in runs if x.is_done]
  return np.array([x for x in scores if np.isfinite(x)])


def make_games_table(scores: Sequence[GamesScore]) -> rich.table.Table:
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
      f"{score.iqm:.3f}",
      statistics.format_interval(score.iqm_interval, ".3f"),
    )
  return table


def make_table(
  scores: Sequence[SettingScore], plan: sweep_folder.Plan, rows: int
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
  ranked = rank(scores)
  for score in ranked[:rows]:
    steps = score.target_steps
    at = "" if np.isnan(steps) else f" at {steps / 1_000:,.0f}k"
    held = "" if np.isnan(score.held) else f"{score.held:.0%}"
    table.add_row(
      str(score.index),
      rich.text.Text(score.name.replace(" ", "\n"), overflow="fold"),
      f"{score.done}/{seeds}",
      "" if np.isnan(score.iqm) else f"{score.iqm:,.1f}",
      statistics.format_interval(score.iqm_interval, ",.1f"),
      "" if np.isnan(score.improvement) else f"{score.improvement:.0%}",
      *([f"{score.at_target}/{seeds}{at}", held] if has_target else []),
    )
  if len(ranked) > rows:
    table.caption = f"and {len(ranked) - rows} more settings"
  return table


def write(
  folder: sweep_folder.SweepFolder,
  plan: sweep_folder.Plan,
  runs: Sequence[Sequence[RunScore]],
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
  scores = score_settings(plan, runs)
  names = [*dict.fromkeys(name for x in plan.settings for name in x)]
  folder.write(
    "runs.csv",
    _to_csv(
      ["setting", "seed", *names, *RunScore._fields[1:]],
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
  intervals = ("iqm", "gap", "improvement")
  rows = []
  for score in scores:
    setting = plan.settings[score.index]
    row = [score.index, *(setting.get(name, "") for name in names)]
    row += [score.done, score.at_target, score.target_steps, score.held]
    for name in intervals:
      row += [getattr(score, name), *getattr(score, f"{name}_interval")]
    rows.append(row)
    row.append(score.human_normalized)
  header = ["setting", *names, "done", "at_target", "target_steps", "held"]
  for name in intervals:
    header += [name, f"{name}_low", f"{name}_high"]
  header.append("human_normalized")
  folder.write("settings.csv", _to_csv(header, rows))
  files = ["settings.csv", "runs.csv"]
  if games := score_games(plan, runs):
    header = ["setting", *GamesScore._fields[1:-1], "iqm_low", "iqm_high"]
    rows = [[*score[:-1], *score.iqm_interval] for score in games]
    folder.write("games.csv", _to_csv(header, rows))
    files.append("games.csv")
  if any(np.isfinite(score.iqm) for score in scores):
    folder.write("sweep.png", _draw(plan, scores, runs))
    files.append("sweep.png")
  return files


def rank(scores: Sequence[SettingScore]) -> list[SettingScore]:
  """Returns the settings by their IQM, the highest first; nan comes last."""
  return sorted(scores, key=lambda x: (np.isnan(x.iqm), -x.iqm))


def _score_setting(
  plan: sweep_folder.Plan,
  index: int,
  runs: Sequence[RunScore],
  scores: Sequence[np.ndarray],
) -> SettingScore:
  """Returns the measures of a setting.

  Args:
    plan: the plan.
    index: index of the setting.
    runs: the scores of its runs.
    scores: finite scores of the runs of each setting.
  """
  own = scores[index]
  improvement = (np.nan, (np.nan, np.nan))
  gap = improvement
  iqm = improvement
  human = _list_human_normalized(runs)
  if len(own):
    iqm = _measure(statistics.interquartile_mean, own)
    if np.isfinite(plan.target):
      gap = _measure(
        functools.partial(statistics.optimality_gap, target=plan.target), own
      )
    if index and len(scores[0]):
      improvement = _measure(
        statistics.probability_of_improvement, own, scores[0]
      )
  at_target = [x for x in runs if x.is_done and np.isfinite(x.target_steps)]
  return SettingScore(
    index,
    space.describe(plan.settings[index]),
    sum(x.is_done for x in runs),
    *iqm,
    float(statistics.interquartile_mean(human)) if len(human) else np.nan,
    *gap,
    *improvement,
    len(at_target),
    float(np.median([x.target_steps for x in at_target] or [np.nan])),
    float(np.mean([x.held for x in at_target] or [np.nan])),
  )


def _measure(
  measure: typing.Callable[..., np.ndarray], *scores: np.ndarray
) -> tuple[float, tuple[float, float]]:
  """Returns a measure of scores, and its 95 % interval."""
  low, high = statistics.interval(measure, *scores)
  return float(measure(*scores)), (float(low), float(high))


def _draw(
  plan: sweep_folder.Plan,
  scores: Sequence[SettingScore],
  runs: Sequence[Sequence[RunScore]],
) -> bytes:
  """Draws the curves of the best settings, and the measures of all.

  Returns:
    The picture, as the bytes of a PNG file.
  """
  # Imported late, because the import takes a second.
  from matplotlib import figure

  ranked = [score for score in rank(scores) if np.isfinite(score.iqm)]
  height = 0.7 + 0.28 * len(ranked)
  picture = figure.Figure(
    figsize=(12.6, 5.0 + height), dpi=150, layout="constrained"
  )
  above, below = picture.subfigures(2, 1, height_ratios=(5.0, height))
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
      value = getattr(score, name)
      color = comparison.color(row) if row < _MAX_CURVES else "#6b7280"
      axes.hlines(
        row,
        *getattr(score, f"{name}_interval"),
        color=color,
        linewidth=5,
        alpha=0.35,
      )
      axes.plot(value, row, "o", color=color, markersize=5)
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
  """Returns rows as CSV; a cell is empty for nan."""
  text = io.StringIO()
  writer = csv.writer(text, lineterminator="\n")
  writer.writerow(header)
  for row in rows:
    writer.writerow(
      "" if isinstance(x, float) and np.isnan(x) else _to_cell(x) for x in row
    )
  return text.getvalue().encode()


def _to_cell(value: typing.Any) -> typing.Any:
  """Returns a cell; floats have ten significant digits."""
  return f"{value:.10g}" if isinstance(value, float) else value
