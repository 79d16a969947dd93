"""Tests of the scores of a sweep's runs, settings and games."""

import ml_collections
import numpy as np
import pytest

from slipway.launch.runs import run_status
from slipway.launch.sweeps import runs as runs_lib
from slipway.launch.sweeps import scoring
from tests.launch.sweeps import given


@pytest.fixture
def run(tmp_path):
  return runs_lib.SweepRun(tmp_path, 0, 1)


def test_a_target_that_is_reached_and_lost_again(run):
  returns = [480.0, 20.0, 475.0, 500.0, 490.0, 30.0, 500.0, 100.0]
  given.write_curves(run, returns)
  score = scoring.score_run(run, target=475.0, evaluations=3)
  assert score.target_steps == 4_000
  assert score.held == 4 / 6
  assert not score.is_done
  score = scoring.score_run(run, target=475.0, evaluations=4)
  assert np.isnan(score.target_steps)
  assert np.isnan(score.held)


@pytest.mark.parametrize(
  ("returns", "period", "score"),
  [
    # Two runs that have ended at a target: the faster one is not behind.
    ([20.0, 300.0, 480.0, 490.0, 500.0], 10_000, 500.0),
    ([20.0, 200.0, *[300.0] * 5, 480.0, 485.0, 490.0], 10_000, 490.0),
    # As many steps with other numbers of evaluations.
    ([20.0, *[100.0] * 17, 400.0, 500.0, 400.0, 600.0], 1_000, 500.0),
    ([20.0, 500.0], 21_000, 500.0),
    ([20.0], 1_000, 20.0),
  ],
)
def test_the_score_is_of_the_last_tenth_of_the_steps(
  run, returns, period, score
):
  given.write_curves(run, returns, period)
  assert scoring.score_run(run, np.inf, 1).score == score


def test_the_best_evaluation_is_the_repeated_one(run):
  given.write_curves(run, [20.0, 500.0, 100.0])
  # without a summary
  assert scoring.score_run(run, np.inf, 1).best == 500.0
  for repeated, best in ((310.0, 310.0), (None, 500.0)):
    evaluation = run_status.EvaluationStatus(best_mean_return=repeated)
    given.write_summary(run, evaluation=evaluation)
    assert scoring.score_run(run, np.inf, 1).best == best


class EndingRun(runs_lib.SweepRun):
  """A run that ends with one more evaluation, just after its rows are read."""

  def read_evaluations(self):
    rows = super().read_evaluations()
    given.write_curves(self, [20.0, 500.0])
    given.write_summary(self, stopped_because="trainer_steps", trainer_steps=1)
    return rows


@pytest.mark.parametrize("returns", [[], [20.0]])
def test_a_run_that_ends_while_it_is_read_is_read_again(tmp_path, returns):
  run = EndingRun(tmp_path, 0, 1)
  given.write_curves(run, returns)
  assert not scoring.score_run(run, np.inf, 1).is_done
  score = scoring.score_run(run, np.inf, 1)
  assert (score.is_done, score.score) == (True, 500.0)


@pytest.mark.parametrize(
  ("combine", "scores"),
  [
    ("any", {1: 2.0, 2: 3.0, 3: 4.0, 4: 5.0}),
    ("all", {1: 3.0, 2: 5.0}),
  ],
)
def test_the_score_at_each_tenth_of_the_limits(combine, scores):
  rows = {
    "env_steps": np.arange(5) * 100.0,
    "trainer_steps": np.arange(5) * 10.0,
    "wall_s": np.ones(5),
    "eval_return": np.arange(1.0, 6.0),
  }
  limits = ml_collections.ConfigDict(
    {
      "environment_steps": 1_000,
      "trainer_steps": 200,
      "wall_clock_s": 0.0,
      "combine": combine,
    }
  )
  assert scoring.score_tenths(rows, limits) == scores
  assert not scoring.score_tenths({x: y[:0] for x, y in rows.items()}, limits)


def test_games_have_a_common_measure():
  settings = given.make_settings(
    "config=dqn:atari57,rainbow:atari57", "environment.game=Pong,Breakout"
  )
  runs = [
    given.make_runs(0, 0.0, 1.0),
    given.make_runs(1, 2.0, 3.0),
    given.make_runs(2, 4.0, 4.0),
    given.make_runs(3, 4.0, 4.0),
  ]
  better, other = scoring.score_games(settings, runs)
  assert (better.name, better.games, better.done) == ("rainbow:atari57", 2, 4)
  assert better.iqm == (4.0, 4.0, 4.0)
  assert other.iqm.value == 1.5
  # Each bootstrap sample has two seeds of each game.
  assert other.iqm[1:] == pytest.approx((1.0, 2.0))
  scores = scoring.score_settings(settings, runs, np.inf)
  assert [x.human_normalized for x in scores] == [0.5, 2.5, 4.0, 4.0]


def test_settings_with_the_same_game_count_as_one_game():
  settings = [{"environment.game": x} for x in ("Pong", "Breakout", "Pong")]
  runs = [
    given.make_runs(0, 1.0, 1.0),
    given.make_runs(1, 2.0, 4.0),
    given.make_runs(2, 3.0),
  ]
  (score,) = scoring.score_games(settings, runs)
  assert (score.games, score.planned_games) == (2, 2)
  assert (score.done, score.planned) == (5, 5)
  # The middle of 1, 1, 2, 3 and 4.
  assert score.iqm.value == 2.0
  settings = [{"environment.game": "Pong"}] * 2
  runs = [given.make_runs(0, 1.0), given.make_runs(1, 2.0)]
  assert not scoring.score_games(settings, runs)


def test_runs_that_have_not_ended_do_not_count_at_the_target():
  settings = [{"learner.clip": "0.1"}]
  ended, active, without = (
    run._replace(target_steps=steps, held=held, is_done=is_done)
    for run, steps, held, is_done in zip(
      given.make_runs(0, *(np.nan,) * 3),
      (4_000.0, 1_000.0, np.nan),
      (0.5, 1.0, np.nan),
      (True, False, True),
      strict=True,
    )
  )
  (score,) = scoring.score_settings(
    settings, [[ended, active, without]], np.inf
  )
  assert (score.done, score.at_target) == (2, 1)
  assert (score.target_steps, score.held) == (4_000.0, 0.5)
  (score,) = scoring.score_settings(settings, [[active]], np.inf)
  assert (score.done, score.at_target) == (0, 0)
  assert np.isnan([score.target_steps, score.held]).all()


def test_active_runs_and_single_games_have_no_common_measure():
  settings = [{"environment.game": "Pong"}, {"learner.clip": "0.1"}]
  runs = [given.make_runs(0, 1.0, 2.0), given.make_runs(1, 1.0, 2.0)]
  assert not scoring.score_games(settings, runs)
  settings = [{"environment.game": x} for x in ("Pong", "Breakout")]
  runs = [given.make_runs(0, 1.0), given.make_runs(1, 2.0, is_done=False)]
  assert not scoring.score_games(settings, runs)
