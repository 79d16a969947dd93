"""Tests of the scores of a sweep's runs, settings and games."""

import msgspec
import numpy as np
import pytest

from slipway.launch.runs import run_folder, run_status, run_summary
from slipway.launch.sweeps import scoring, sweep_folder
from tests.launch.sweeps import given


def test_a_target_that_is_reached_and_lost_again(tmp_path):
  folder = run_folder.RunFolder(tmp_path)
  returns = [480.0, 20.0, 475.0, 500.0, 490.0, 30.0, 500.0, 100.0]
  given.write_curves(folder, returns)
  run = sweep_folder.SweepRun(0, 1, folder, tmp_path / "a.log")
  score = scoring.score_run(run, "CartPole-v1", target=475.0, evaluations=3)
  assert score.target_steps == 4_000
  assert score.held == 4 / 6
  assert not score.is_done
  score = scoring.score_run(run, "CartPole-v1", target=475.0, evaluations=4)
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
  tmp_path, returns, period, score
):
  given.write_curves(run_folder.RunFolder(tmp_path), returns, period)
  run = sweep_folder.SweepRun(
    0, 1, run_folder.RunFolder(tmp_path), tmp_path / "a.log"
  )
  assert scoring.score_run(run, "", np.inf, 1).score == score


def test_the_best_evaluation_is_the_repeated_one(tmp_path):
  folder = run_folder.RunFolder(tmp_path)
  given.write_curves(folder, [20.0, 500.0, 100.0])
  run = sweep_folder.SweepRun(0, 1, folder, tmp_path / "a.log")
  assert (
    scoring.score_run(run, "", np.inf, 1).best == 500.0
  )  # without a summary
  for repeated, best in ((310.0, 310.0), (None, 500.0)):
    status = run_status.RunStatus(
      evaluation=run_status.EvaluationStatus(best_mean_return=repeated)
    )
    summary = run_summary.RunSummary.from_status(status)
    folder.summary.write_bytes(msgspec.json.encode(summary))
    assert scoring.score_run(run, "", np.inf, 1).best == best


class EndingRun(sweep_folder.SweepRun):
  """A run that ends with one more evaluation, just after its rows are read."""

  def read_evaluations(self):
    rows = super().read_evaluations()
    given.write_curves(self.folder, [20.0, 500.0])
    status = run_status.RunStatus(
      stopped_because="trainer_steps", trainer_steps=1
    )
    summary = run_summary.RunSummary.from_status(status)
    self.folder.summary.write_bytes(msgspec.json.encode(summary))
    return rows


@pytest.mark.parametrize("returns", [[], [20.0]])
def test_a_run_that_ends_while_it_is_read_is_read_again(tmp_path, returns):
  folder = run_folder.RunFolder(tmp_path)
  given.write_curves(folder, returns)
  run = EndingRun(0, 1, folder, tmp_path / "a.log")
  assert not scoring.score_run(run, "", np.inf, 1).is_done
  score = scoring.score_run(run, "", np.inf, 1)
  assert (score.is_done, score.score) == (True, 500.0)


def test_games_have_a_common_measure():
  games = ("Pong", "Breakout")
  plan = given.make_plan(
    [
      {"config": config, "environment.game": game}
      for config in ("dqn:atari57", "rainbow:atari57")
      for game in games
    ],
    seeds=[1, 2],
  )
  runs = [
    given.make_runs(0, 0.0, 1.0),
    given.make_runs(1, 2.0, 3.0),
    given.make_runs(2, 4.0, 4.0),
    given.make_runs(3, 4.0, 4.0),
  ]
  better, other = scoring.score_games(plan, runs)
  assert (better.name, better.games, better.done) == ("rainbow:atari57", 2, 4)
  assert better.iqm == (4.0, 4.0, 4.0)
  assert other.iqm.value == 1.5
  # Each bootstrap sample has two seeds of each game.
  assert other.iqm[1:] == pytest.approx((1.0, 2.0))
  settings = scoring.score_settings(plan, runs)
  assert [x.human_normalized for x in settings] == [0.5, 2.5, 4.0, 4.0]


def test_settings_with_the_same_game_count_as_one_game():
  plan = given.make_plan(
    [{"environment.game": x} for x in ("Pong", "Breakout", "Pong")],
    seeds=[1, 2],
  )
  runs = [
    given.make_runs(0, 1.0, 1.0),
    given.make_runs(1, 2.0, 4.0),
    given.make_runs(2, 3.0),
  ]
  (score,) = scoring.score_games(plan, runs)
  assert (score.games, score.planned_games) == (2, 2)
  assert (score.done, score.planned) == (5, 5)
  # The middle of 1, 1, 2, 3 and 4.
  assert score.iqm.value == 2.0
  plan = given.make_plan([{"environment.game": "Pong"}] * 2, seeds=[1])
  runs = [given.make_runs(0, 1.0), given.make_runs(1, 2.0)]
  assert not scoring.score_games(plan, runs)


def test_runs_that_have_not_ended_do_not_count_at_the_target():
  plan = given.make_plan([{"learner.clip": "0.1"}], seeds=[1, 2, 3])
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
  (score,) = scoring.score_settings(plan, [[ended, active, without]])
  assert (score.done, score.at_target) == (2, 1)
  assert (score.target_steps, score.held) == (4_000.0, 0.5)
  (score,) = scoring.score_settings(plan, [[active]])
  assert (score.done, score.at_target) == (0, 0)
  assert np.isnan([score.target_steps, score.held]).all()


def test_active_runs_and_single_games_have_no_common_measure():
  plan = given.make_plan(
    [{"environment.game": "Pong"}, {"learner.clip": "0.1"}], seeds=[1, 2]
  )
  runs = [given.make_runs(0, 1.0, 2.0), given.make_runs(1, 1.0, 2.0)]
  assert not scoring.score_games(plan, runs)
  plan = given.make_plan(
    [{"environment.game": x} for x in ("Pong", "Breakout")], seeds=[1, 2]
  )
  runs = [given.make_runs(0, 1.0), given.make_runs(1, 2.0, is_done=False)]
  assert not scoring.score_games(plan, runs)
