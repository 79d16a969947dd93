"""Tests of the probe: what random play shows of environments."""

import random

import gymnasium
import numpy as np
import pytest

from slipway.environments import factory, probe
from tests.environments import given

NAMES = "tests.environments.toys"


def measure(name, fields=None, **kwargs):
  return probe.measure(given.config_of(name, fields, **kwargs), 0.05)


class Timed(gymnasium.Env):
  """Counts its steps; ignores its seed where `is_random`; has masks."""

  observation_space = gymnasium.spaces.Box(0, 9, (2,), np.float32)
  action_space = gymnasium.spaces.Discrete(4)

  def __init__(self, is_random=False):
    self._is_random, self._count = is_random, 0

  def reset(self, *, seed=None, options=None):
    self._count = 0
    return self._observe(), {"action_mask": np.array([1, 0, 0, 0])}

  def step(self, action):
    assert action == 0
    self._count += 1
    mask = {"action_mask": np.array([1, 0, 0, 0])}
    return self._observe(), 2.0, False, self._count == 3, mask

  def _observe(self):
    first = random.random() if self._is_random else 7.0
    return np.array([first, self._count], np.float32)


def test_rewards_lengths_and_ends():
  found = measure(f"{NAMES}:Catch", rows=5)
  assert (found.rewards.low, found.rewards.high) == (-1.0, 1.0)
  assert found.rewarded_share == pytest.approx(0.25, rel=0.3)
  assert found.lengths == (4, 4.0, 4)
  assert found.terminated_share == 1.0
  assert found.longest_unfinished < 4
  assert -1.0 <= found.returns.low <= found.returns.mean <= found.returns.high
  assert (found.observation_low, found.observation_high) == (
    pytest.approx(np.zeros((5, 5))),
    pytest.approx(np.ones((5, 5))),
  )
  assert found.is_reproducible
  assert found.starts_vary
  assert min(found.steps_per_s, found.batch_steps_per_s) > 0


def test_an_episode_that_does_not_end_has_no_return():
  found = measure("Pendulum-v1", {"time_limit": 10**8})
  assert found.returns is found.lengths is None
  assert found.episodes == found.terminated_share == 0
  assert found.longest_unfinished > 0


@pytest.mark.parametrize("is_random", [False, True])
def test_masks_truncation_and_seeds(is_random):
  name = f"{__name__}:Timed"
  found = measure(name, {"action_mask": True}, is_random=is_random)
  assert found.legal_share == 0.25
  assert found.terminated_share == 0.0
  assert found.lengths == (3, 3.0, 3)
  assert found.rewards == (2.0, 2.0, 2.0)
  assert found.observation_low.shape == (2,)
  assert found.observation_high[1] == 3.0
  assert found.is_reproducible == (not is_random)
  assert found.starts_vary == is_random
  assert found.spec == factory.make_spec(
    given.config_of(name, {"action_mask": True})
  )
