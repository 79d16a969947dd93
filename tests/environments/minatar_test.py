"""Tests of MinAtar's games, as the factory makes them."""

import numpy as np
import pytest

from slipway.environments import factory, minatar
from tests.environments import given


@pytest.mark.parametrize("game", list(minatar.GAMES))
def test_a_game_is_a_board_of_bytes(game):
  config = given.config_of("slipway.environments.minatar:MinAtar/{game}-v1")
  config.game = game
  environment = factory.make(config, 3, seed=1)
  spec = environment.spec
  assert spec.observations.dtype == np.uint8
  assert spec.observations.shape[:2] == (10, 10)
  assert 2 <= spec.actions.num_values <= 6
  seen = [environment.reset().observation]
  random = np.random.default_rng(0)
  for _ in range(50):
    actions = random.integers(0, spec.actions.num_values, 3, np.int32)
    seen.append(environment.step(actions).observation)
  assert set(np.unique(seen)) == {0, 1}
  environment.close()


def rewards(seed, **kwargs):
  config = given.config_of(
    "slipway.environments.minatar:MinAtar/Breakout-v1", **kwargs
  )
  environment = factory.make(config, 4, seed)
  environment.reset()
  random = np.random.default_rng(0)
  steps = [
    environment.step(random.integers(0, 3, 4, np.int32)) for _ in range(300)
  ]
  environment.close()
  return np.stack([step.reward for step in steps])


def test_rewards_depend_on_the_seed_only():
  np.testing.assert_array_equal(rewards(1), rewards(1))
  assert (rewards(1) != rewards(2)).any()
  assert rewards(1).sum() > 0


def test_sticky_actions_can_be_set():
  assert (rewards(1) != rewards(1, sticky_action_prob=0.9)).any()


def test_an_unknown_game_is_rejected_and_the_nearest_named():
  config = given.config_of("slipway.environments.minatar:MinAtar/{game}-v1")
  config.game = "Brekout"
  with pytest.raises(ValueError, match=":MinAtar/Breakout-v1'"):
    factory.make(config, 1, 0)
