"""Tests of human-normalized scores of Atari games."""

import math

import ale_py
import gymnasium
import pytest

from slipway.environments import atari_scores


@pytest.mark.parametrize(
  ("game", "score", "normalized"),
  [
    ("Pong", -20.7, 0.0),
    ("Pong", 14.6, 1.0),
    ("Breakout", 401.2, 13.8715),  # Mnih et al. 2015, table 2: 1,327 %
    ("MontezumaRevenge", 0.0, 0.0),
  ],
)
def test_games(game, score, normalized):
  found = atari_scores.normalize(f"ALE/{game}-v5", score)
  assert found == pytest.approx(normalized, abs=1e-3)


@pytest.mark.parametrize("name", ["CartPole-v1", "ALE/Adventure-v5", "own:Env"])
def test_other_environments_have_none(name):
  assert math.isnan(atari_scores.normalize(name, 1.0))


def test_all_57_games_have_a_score():
  gymnasium.register_envs(ale_py)
  games = [x for x in gymnasium.registry if x.startswith("ALE/")]
  known = [x for x in games if not math.isnan(atari_scores.normalize(x, 0.0))]
  assert len(known) == 57
