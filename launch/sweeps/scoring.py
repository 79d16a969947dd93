"""Scoring: measures what the runs, settings and games of a sweep have reached.

The score of a run is its final return; see `curves.final_return`.
"""

import functools
import typing
from collections.abc import Callable, Sequence

import numpy as np

from slipway.environments import atari_scores
from slipway.launch.orchestration import limits
from slipway.launch.runs import curves, statistics
from slipway.launch.sweeps import space, sweep_folder

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


class Measure(typing.NamedTuple):
  """A measure of several scores, with its 95 % interval; nan if unknown."""

  value: float = np.nan
  low: float = np.nan
  high: float = np.nan


class SettingScore(typing.NamedTuple):
  """What the runs of a setting have reached, by the measures of `statistics`.

  Only runs that have ended at a limit count. A single one has no intervals.

  Attributes:
    index: index of the setting.
    name: the setting as text.
    done: number of runs that have ended at a limit.
    iqm: interquartile mean of the scores; nan without a score, as all others.
    human_normalized: the IQM, human-normalized; nan if this is no Atari game.
    gap: optimality gap to the target; nan without a target.
    improvement: probability that a run scores more than one of setting 0; nan
      for setting 0.
    at_target: number of runs that have met the target.
    target_steps: median of their environment steps until then, or nan.
    held: mean over these runs of `RunScore.held`, or nan.
  """

  index: int
  name: str
  done: int
  iqm: Measure
  human_normalized: float
  gap: Measure
  improvement: Measure
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
    iqm: interquartile mean of the human-normalized scores of the `done` runs,
      with a stratified interval; no interval if all games have one seed.
  """

  name: str
  games: int
  planned_games: int
  done: int
  planned: int
  iqm: Measure


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
  # Before the rows, which are complete if it is True: an active run may end.
  is_done = run.is_done()
  rows = run.read_evaluations()
  returns = rows["eval_return"]
  if not len(returns):
    none = (np.nan, np.nan, np.nan)
    return RunScore(run, *none, 0.0, 0.0, np.nan, np.nan, is_done)
  steps = curves.get_progress(rows)
  score = curves.final_return(steps, returns)
  summary = run.read_summary()
  repeated = summary.best_eval_return if summary else None
  at_target = returns >= limits.lowest_accepted(target)
  met = np.convolve(at_target, np.ones(evaluations), "valid")
  first = np.flatnonzero(met == evaluations)
  return RunScore(
    run,
    score,
    atari_scores.normalize(environment, score),
    float(returns.max()) if repeated is None else repeated,
    rows["env_steps"][-1],
    rows["wall_s"][-1],
    steps[first[0] + evaluations - 1] if len(first) else np.nan,
    float(at_target[first[0] :].mean()) if len(first) else np.nan,
    is_done,
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
  found = []
  for index, (own, group) in enumerate(zip(scores, runs, strict=True)):
    iqm = gap = improvement = Measure()
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
    human = _list_human_normalized(group)
    at_target = [x for x in group if x.is_done and np.isfinite(x.target_steps)]
    found.append(
      SettingScore(
        index,
        space.describe(plan.settings[index]),
        sum(x.is_done for x in group),
        iqm,
        float(statistics.interquartile_mean(human)) if len(human) else np.nan,
        gap,
        improvement,
        len(at_target),
        float(np.median([x.target_steps for x in at_target] or [np.nan])),
        float(np.mean([x.held for x in at_target] or [np.nan])),
      )
    )
  return found


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
    measure = statistics.interquartile_mean
    iqm = measure(np.concatenate(games))
    bounds = statistics.stratified_interval(measure, games)
    found.append(
      GamesScore(
        name,
        len(games),
        len(planned),
        sum(run.is_done for group in planned.values() for run in group),
        sum(map(len, planned.values())),
        Measure(*map(float, (iqm, *bounds))),
      )
    )
  return sorted(found, key=lambda x: -x.iqm.value)


def _list_human_normalized(runs: Sequence[RunScore]) -> np.ndarray:
  """Returns the human-normalized scores [R] of runs that have ended."""
  scores = [x.human_normalized for x in runs if x.is_done]
  return np.array([x for x in scores if np.isfinite(x)])


def _measure(
  measure: Callable[..., np.ndarray], *scores: np.ndarray
) -> Measure:
  """Returns a measure of scores, and its 95 % interval."""
  bounds = statistics.interval(measure, *scores)
  return Measure(*map(float, (measure(*scores), *bounds)))
