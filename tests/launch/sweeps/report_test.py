"""What a sweep says about its scores."""

import pathlib

import numpy as np
import pytest

from slipway.launch.runs import run_folder
from slipway.launch.sweeps import report, sweep_folder


def make_plan(settings):
  return sweep_folder.Plan(
    flags=[],
    working_folder="",
    vary=[],
    search="grid",
    search_seed=0,
    max_settings=1,
    seeds=[1, 2],
    settings=settings,
  )


def make_runs(setting, *normalized, is_done=True):
  folder = run_folder.RunFolder(pathlib.Path("none"))
  return [
    report.RunScore(
      sweep_folder.SweepRun(setting, seed, folder, pathlib.Path("none.log")),
      score=10.0,
      human_normalized=score,
      best=12.0,
      env_steps=100.0,
      wall_s=1.0,
      target_steps=np.nan,
      is_done=is_done,
    )
    for seed, score in enumerate(normalized, 1)
  ]


def test_games_are_measured_together():
  games = ("Pong", "Breakout")
  plan = make_plan(
    [
      {"config": config, "environment.game": game}
      for config in ("dqn:atari57", "rainbow:atari57")
      for game in games
    ]
  )
  runs = [
    make_runs(0, 0.0, 1.0),
    make_runs(1, 2.0, 3.0),
    make_runs(2, 4.0, 4.0),
    make_runs(3, 4.0, 4.0),
  ]
  better, other = report.score_games(plan, runs)
  assert (better.name, better.games, better.done) == ("rainbow:atari57", 2, 4)
  assert better.iqm == 4.0
  assert better.iqm_interval == (4.0, 4.0)
  assert other.iqm == 1.5
  # Each game keeps its two seeds in each draw.
  assert other.iqm_interval == pytest.approx((1.0, 2.0))
  settings = report.score_settings(plan, runs)
  assert [x.human_normalized for x in settings] == [0.5, 2.5, 4.0, 4.0]


def test_active_runs_and_single_games_have_no_common_measure():
  plan = make_plan([{"environment.game": "Pong"}, {"learner.clip": "0.1"}])
  runs = [make_runs(0, 1.0, 2.0), make_runs(1, 1.0, 2.0)]
  assert not report.score_games(plan, runs)
  plan = make_plan([{"environment.game": x} for x in ("Pong", "Breakout")])
  runs = [make_runs(0, 1.0), make_runs(1, 2.0, is_done=False)]
  assert not report.score_games(plan, runs)
