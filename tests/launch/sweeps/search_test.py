"""Tests of searches on a function with a known maximum."""

import math

import pytest

from slipway.launch.sweeps import search, space

_AXES = [
  space.parse("learner.learning_rate=log:1e-6..1.0"),
  space.parse("replay.sampler=uniform,prioritized"),
  space.parse("learner.batch_size=1..512"),
]


def _score(setting):
  """Returns a score: the maximum is at a rate of 1e-3, with priorities."""
  distance = abs(math.log10(float(setting["learner.learning_rate"])) + 3)
  return -distance - 2 * (setting["replay.sampler"] == "uniform")


def _run(searcher, settings, start=0):
  scores = []
  for index in range(start, settings):
    setting = searcher.ask(index)
    scores.append(_score(setting))
    searcher.tell(index, scores[-1])
  assert searcher.ask(settings) is None
  return scores


def test_optuna_finds_better_settings_than_random_sampling():
  found = _run(search.make("optuna", _AXES, 60, 1), 60)
  sampled = _run(search.make("random", _AXES, 60, 1), 60)
  assert sum(found[30:]) > sum(sampled[30:]) + 15


@pytest.mark.parametrize("name", ["random", "optuna"])
def test_a_resumed_search_keeps_its_settings(name):
  first = search.make(name, _AXES, 12, 1)
  known = [first.ask(index) for index in range(5)]
  resumed = search.make(name, _AXES, 12, 1, known)
  assert [resumed.ask(index) for index in range(5)] == known
  for index in range(5):
    resumed.tell(index, None if index == 2 else float(index))
  for index in range(5, 12):
    setting = resumed.ask(index)
    assert setting not in known
    resumed.tell(index, _score(setting))
  assert resumed.ask(12) is None


_GAMES = [
  space.parse("config=dqn:atari57,rainbow:atari57"),
  space.parse("environment.game=Pong,Breakout,Seaquest"),
]


def test_random_settings_differ():
  searcher = search.make("random", _GAMES, 6, 0)
  settings = [searcher.ask(index) for index in range(6)]
  assert searcher.ask(6) is None
  grid = space.make_grid(_GAMES)
  assert all(setting in settings for setting in grid)
  # Fewer settings are the first ones.
  fewer = search.make("random", _GAMES, 4, 0)
  assert [fewer.ask(index) for index in range(5)] == [*settings[:4], None]


def test_more_random_settings_than_there_are_raise_one_line():
  with pytest.raises(ValueError, match=r"only 6 .* --settings=6") as caught:
    search.make("random", _GAMES, 7, 0)
  assert "\n" not in str(caught.value)


def test_a_grid_is_a_list():
  searcher = search.make("grid", [space.parse("learner.tau=1,2")], 1, 0)
  assert [searcher.ask(i) for i in range(3)] == [
    {"learner.tau": "1"},
    {"learner.tau": "2"},
    None,
  ]
