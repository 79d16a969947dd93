"""Scoring: measures what the runs, settings and games of a sweep have reached.

The score of a run is its final return; see `curves.final_return`. Only runs
that have ended at a limit count in the measures of settings and games.
"""

import functools
import typing
from collections.abc import Callable, Mapping, Sequence

import ml_collections
import numpy as np

from slipway.environments import atari_scores
from slipway.launch.control import limits as limits_lib
from slipway.launch.runs import curves, statistics
from slipway.launch.sweeps import runs as runs_lib
from slipway.launch.sweeps import space

# Fields by which settings differ that train other games.
_GAME_FIELDS = ("environment.game", "environment.name")
# Columns of curves.csv, by the limit of their value.
_PROGRESS = {
  "environment_steps": "env_steps",
  "trainer_steps": "trainer_steps",
  "wall_clock_s": "wall_s",
}


class RunScore(typing.NamedTuple):
  """What a run has reached so far; numbers are nan if they are unknown."""

  run: runs_lib.SweepRun
  score: float = np.nan  # mean return in the last tenth of the steps
  human_normalized: float = np.nan  # the score of an Atari game
  # Highest mean return; in a run that has stopped, of a repetition with other
  # episodes, since the highest of many means is too high by chance.
  best: float = np.nan
  env_steps: float = 0.0  # at the last evaluation, as `wall_s`
  wall_s: float = 0.0
  target_steps: float = np.nan  # environment steps until the target was met
  held: float = np.nan  # part of the evaluations since then at the target
  is_done: bool = False  # whether the run has ended at one of its limits


class Measure(typing.NamedTuple):
  """A measure of several scores, with its 95 % interval; nan if unknown.

  The measure of a single run has no interval.
  """

  value: float = np.nan
  low: float = np.nan
  high: float = np.nan


class SettingScore(typing.NamedTuple):
  """What the runs of a setting have reached, by measures of `statistics`."""

  index: int
  name: str
  done: int  # number of runs that have ended at a limit
  at_target: int  # number of those that have met the target
  target_steps: float  # median of their environment steps until then, or nan
  held: float  # mean over them of `RunScore.held`, or nan
  iqm: Measure  # interquartile mean of the scores
  gap: Measure  # optimality gap to the target
  improvement: Measure  # probability of a higher score than setting 0
  human_normalized: float  # the IQM of an Atari game, or nan


class GamesScore(typing.NamedTuple):
  """What settings that differ only in the Atari game have reached together."""

  name: str  # what the settings have in common
  games: int  # number of games with a human-normalized score
  planned_games: int  # number of games of the settings so far
  done: int  # number of runs that have ended at a limit
  planned: int  # number of runs of the settings so far
  iqm: Measure  # of the human-normalized scores; its interval is stratified


Score = RunScore | SettingScore | GamesScore


class Scores(typing.NamedTuple):
  """The scores of a sweep: [S] lists of runs, of S settings, and of games."""

  runs: list[list[RunScore]]
  settings: list[SettingScore]
  games: list[GamesScore]


def score_all(
  settings: Sequence[space.Setting], runs: list[list[RunScore]], target: float
) -> Scores:
  """Returns all scores, from the settings and [S] lists of runs."""
  measures = score_settings(settings, runs, target)
  return Scores(runs, measures, score_games(settings, runs))


def score_run(
  run: runs_lib.SweepRun, target: float, evaluations: int
) -> RunScore:
  """Reads what a run has reached, which may be active or not begun.

  Args:
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
    return RunScore(run, is_done=is_done)
  steps = curves.get_progress(rows)
  score = curves.final_return(steps, returns)
  summary = run.read_summary()
  repeated = summary.evaluation.best_mean_return if summary else None
  at_target = returns >= limits_lib.lowest_accepted(target)
  met = np.convolve(at_target, np.ones(evaluations), "valid")
  first = np.flatnonzero(met == evaluations)
  return RunScore(
    run,
    score,
    atari_scores.normalize(run.environment, score),
    float(returns.max()) if repeated is None else repeated,
    rows["env_steps"][-1],
    rows["wall_s"][-1],
    steps[first[0] + evaluations - 1] if len(first) else np.nan,
    float(at_target[first[0] :].mean()) if len(first) else np.nan,
    is_done,
  )


def list_progress_limits(limits: ml_collections.ConfigDict) -> list[str]:
  """Returns the limits of steps and time that a config sets."""
  return [name for name in _PROGRESS if limits[name]]


def score_tenths(
  rows: Mapping[str, np.ndarray], limits: ml_collections.ConfigDict
) -> dict[int, float]:
  """Returns what a run would have scored at tenths of its way to its limits.

  The rows are columns of its curves.csv, the limits a section of its config.

  Returns:
    The scores by tenth, from 1 to 9, as far as the run has come.
  """
  names = list_progress_limits(limits)
  if not len(rows["eval_return"]) or not names:
    return {}
  parts = np.stack([rows[_PROGRESS[name]] / limits[name] for name in names])
  reached = parts.min(0) if limits.combine == "all" else parts.max(0)  # [N]
  steps, scores = curves.get_progress(rows), {}
  for tenth in range(1, 10):
    known = 1 + np.searchsorted(reached, tenth / 10)  # rows until that tenth
    if known <= len(reached):
      returns = rows["eval_return"][:known]
      scores[tenth] = curves.final_return(steps[:known], returns)
  return scores


def score_settings(
  settings: Sequence[space.Setting],
  runs: Sequence[Sequence[RunScore]],
  target: float,
) -> list[SettingScore]:
  """Returns the measures of each of S settings, from [S] lists of runs."""
  find_gap = functools.partial(statistics.optimality_gap, target=target)
  first: np.ndarray | None = None  # scores of setting 0
  found = []
  for index, (setting, group) in enumerate(zip(settings, runs, strict=True)):
    scores, steps, held, human = (
      _list_known(group, name)
      for name in ("score", "target_steps", "held", "human_normalized")
    )
    gap = improvement = Measure()
    if np.isfinite(target):
      gap = _measure(find_gap, scores)
    if first is not None:
      improvement = _measure(
        statistics.probability_of_improvement, scores, first
      )
    found.append(
      SettingScore(
        index,
        space.describe(setting),
        sum(x.is_done for x in group),
        len(steps),
        float(np.median(steps)) if len(steps) else np.nan,
        float(np.mean(held)) if len(held) else np.nan,
        _measure(statistics.interquartile_mean, scores),
        *(gap, improvement),
        float(statistics.interquartile_mean(human)) if len(human) else np.nan,
      )
    )
    first = scores if first is None else first
  return found


def score_games(
  settings: Sequence[space.Setting], runs: Sequence[Sequence[RunScore]]
) -> list[GamesScore]:
  """Returns the measures over all games of S settings, from [S] lists of runs.

  Several settings with the same game, which the search may choose, count as
  one.

  Returns:
    The measures, the highest first; none if fewer than two games have a score.
  """
  # The runs of each game, by what the settings have in common, and by game.
  groups: dict[str, dict[str, list[RunScore]]] = {}
  for setting, group in zip(settings, runs, strict=True):
    game = {x: y for x, y in setting.items() if x in _GAME_FIELDS}
    common = {x: y for x, y in setting.items() if x not in game}
    if game:
      games = groups.setdefault(space.describe(common), {})
      games.setdefault(space.describe(game), []).extend(group)
  found = []
  for name, planned in groups.items():
    scores = [_list_known(x, "human_normalized") for x in planned.values()]
    games = [x for x in scores if len(x)]
    if len(games) < 2:
      continue
    measure = statistics.interquartile_mean
    iqm = measure(np.concatenate(games))
    bounds = statistics.stratified_interval(measure, games)
    done = [run.is_done for group in planned.values() for run in group]
    found.append(
      GamesScore(
        *(name, len(games), len(planned), sum(done), len(done)),
        Measure(*map(float, (iqm, *bounds))),
      )
    )
  return sorted(found, key=lambda x: -x.iqm.value)


def _list_known(runs: Sequence[RunScore], name: str) -> np.ndarray:
  """Returns a number of the runs that have ended, [R], where it is known."""
  values = [getattr(run, name) for run in runs if run.is_done]
  return np.array([value for value in values if np.isfinite(value)])


def _measure(
  measure: Callable[..., np.ndarray], *scores: np.ndarray
) -> Measure:
  """Returns a measure of scores, unknown if one of them has no run."""
  if not all(map(len, scores)):
    return Measure()
  bounds = statistics.interval(measure, *scores)
  return Measure(*map(float, (measure(*scores), *bounds)))
