"""Tests of a sweep's axes as written on the command line."""

import math

import pytest

from slipway.launch.sweeps import space
from tests.launch import errors


def make_grid(*texts):
  axes = space.parse(texts)
  return [space.to_setting(axes, params) for params in space.make_grid(axes)]


def sample(texts, settings, seed=1):
  axes = space.parse(texts)
  sampled = space.sample_different(axes, settings, seed)
  return [space.to_setting(axes, params) for params in sampled]


def test_a_grid_has_all_combinations():
  grid = make_grid(
    "learner.learning_rate,learner.batch_size=1e-4,32;3e-4,64",
    "config.network.hidden_sizes=(64,64),(256,)",
  )
  assert len(grid) == 4
  assert grid[1] == {
    "learner.learning_rate": "1e-4",
    "learner.batch_size": "32",
    "network.hidden_sizes": "(256,)",
  }


def test_without_an_axis_there_is_one_setting():
  assert make_grid() == [{}]
  assert space.describe({}) == "as configured"


def test_samples_stay_in_their_ranges_and_are_reproducible():
  texts = [
    "learner.learning_rate=log:1e-5..1e-1",
    "learner.batch_size=8..64",
    "learner.tau=0.0..2.0",
    "mode_of_mine=a,b",
  ]
  sampled = sample(texts, 400)
  rates = sorted(float(x["learner.learning_rate"]) for x in sampled)
  assert rates[0] >= 1e-5
  assert rates[-1] <= 1e-1
  assert math.log10(rates[200]) == pytest.approx(-3, abs=0.3)
  sizes = {int(x["learner.batch_size"]) for x in sampled}
  assert min(sizes) == 8
  assert max(sizes) == 64
  assert all(
    "." in x["learner.tau"] or "e" in x["learner.tau"] for x in sampled
  )
  assert {x["mode_of_mine"] for x in sampled} == {"a", "b"}
  assert sample(texts, 7) == sampled[:7]
  assert sample(texts, 7, seed=4) != sampled[:7]


_GAMES = [
  "config=dqn:atari57,rainbow:atari57",
  "environment.game=Pong,Breakout,Seaquest",
]


def test_random_settings_differ():
  sampled = sample(_GAMES, 6)
  assert all(setting in sampled for setting in make_grid(*_GAMES))


def test_more_random_settings_than_there_are_raise_one_line():
  with errors.one_line("only 6", "--settings=6"):
    sample(_GAMES, 7)


@pytest.mark.parametrize(
  ("text", "is_integer"),
  [
    ("limits.environment_steps=1e3..1e5", True),
    ("replay.capacity=log:1e3..1e5", True),
    ("learner.batch_size=8..64", True),
    ("limits.wall_clock_s=1.0e1..1e2", False),
    ("replay.capacity=1.5..3.5", False),
    ("learner.tau=1e-3..1", False),
  ],
)
def test_whole_bounds_without_a_point_give_integers(text, is_integer):
  (setting,) = sample([text], 1)
  assert {*setting.values()}.pop().isdigit() is is_integer


@pytest.mark.parametrize(
  ("text", "line"),
  [
    ("learner.tau", "has no field or no values"),
    ("=1,2", "has no field or no values"),
    ("a,b=1,2;3", "'3' is no value for a,b"),
    ("a=1,,2", "'' is no value for a"),
    ("a=uniform,uniform", "has 'uniform' twice"),
    ("a=0..99999999999999999999", "is no range"),
    ("a,a=1,2", "sets a twice"),
    ("a=2..1", "is no range"),
    ("a=log:0..1", "is no range"),
    ("a=x..1", "is no range"),
    ("a=1e-4..x", "is no range"),
    ("a=1e-4..", "is no range"),
    ("a=log:x..y", "is no range"),
    ("a.tau=1,2 a.tau=3", "sets a.tau twice"),
    ("a=0.1..0.2", "is a range, which a grid can't list"),
  ],
)
def test_a_wrong_axis_raises_one_line(text, line):
  with errors.one_line(line):
    make_grid(*text.split())


def test_a_narrow_range_keeps_its_bounds_and_its_digits():
  settings = sample(["adder.discount=0.999..0.99999"], 250)
  sampled = [float(x["adder.discount"]) for x in settings]
  assert min(sampled) >= 0.999
  assert max(sampled) <= 0.99999


def test_modes_and_paths_are_values_too():
  setting = make_grid("mode=sync,single", "config=../a.py,b.py")[0]
  flags = {space.to_flag_name(x): y for x, y in setting.items()}
  assert flags == {"mode": "sync", "config": "../a.py"}
  assert space.to_flag_name("learner.tau") == "config.learner.tau"
  for paths in ("../a,../b", "../a", "a/../b", "../1,../2"):
    grid = make_grid(f"dataset.path={paths}")
    assert grid == [{"dataset.path": x} for x in paths.split(",")]


def test_fields_of_equal_names_are_shown_with_their_section():
  assert space.describe({"a.x": "1", "b.y": "2"}) == "x=1 y=2"
  assert space.describe({"a.x": "1", "b.x": "2"}) == "a.x=1 b.x=2"
