"""Tests of what random play shows of environments and their wrappers."""

import random

import gymnasium
import ml_collections
import numpy as np
import pytest

from slipway.configs import dqn
from slipway.environments import factory, probe_layers, random_play
from tests.environments import given


class Negated(gymnasium.RewardWrapper):
  def reward(self, reward):
    return -reward


class Large(gymnasium.RewardWrapper):
  def reward(self, reward):
    return 1e3 * reward


class Limited(gymnasium.Wrapper):
  def step(self, action):
    observation, reward, terminated, truncated, info = super().step(action)
    return observation, reward, terminated or truncated, False, info


class Unseeded(gymnasium.Wrapper):
  def reset(self, *, seed=None, options=None):
    return super().reset(options=options)


class Weak(gymnasium.ActionWrapper):
  def action(self, action):
    return 0.01 * action


class Strong(gymnasium.ActionWrapper):
  def action(self, action):
    space = self.action_space
    return np.clip(100 * action, space.low, space.high)


class Harmless(gymnasium.Wrapper):
  """Halves rewards."""

  def step(self, action):
    observation, reward, *others = super().step(action)
    return observation, 0.5 * reward, *others


class Positions(gymnasium.ObservationWrapper):
  def __init__(self, env):
    super().__init__(env)
    self.observation_space = gymnasium.spaces.Box(-9, 9, (2,), np.float32)

  def observation(self, observation):
    return observation[:2]


def play(name, *wrappers, **kwargs):
  config = dqn.get_config().environment
  config.name = name
  config.kwargs = ml_collections.ConfigDict(kwargs)
  config.wrappers = tuple(f"{__name__}:{x.__name__}" for x in wrappers)
  found = random_play.play(config, seconds=0.5)
  return found, probe_layers.find_faults(config, found)


@pytest.mark.parametrize("name", ["CartPole-v1", "Pendulum-v1", "Acrobot-v1"])
def test_a_good_environment_has_no_faults(name):
  found, faults = play(name)
  assert faults == {}
  assert found.unpredictable == 0 and found.is_reproducible


@pytest.mark.parametrize(
  ("name", "wrapper", "kind"),
  [
    ("CartPole-v1", Negated, "reward sign"),
    ("CartPole-v1", Large, "reward scale"),
    ("CartPole-v1", Limited, "truncation"),
    ("CartPole-v1", Unseeded, "seed"),
    ("Pendulum-v1", Weak, "action scale"),
    ("Pendulum-v1", Strong, "action scale"),
    ("Pendulum-v1", Harmless, None),
  ],
)
def test_the_fault_of_one_wrapper_among_others(name, wrapper, kind):
  _, faults = play(name, Harmless, wrapper, Harmless)
  assert [*faults] == ([kind] if kind else [])
  assert all(x.startswith(f"{wrapper.__name__} ") for x in faults.values())


def test_positions_without_velocities_need_the_previous_ones():
  found, _ = play("Pendulum-v1", Positions)
  assert found.unpredictable == 1.0 and found.steps > 400


def test_episodes_are_measured():
  found, _ = play("CartPole-v1")
  assert found.terminations == len(found.lengths) == len(found.returns)
  assert found.returns == found.lengths  # a reward of 1 per step
  assert 0 < found.step_s < 1


def test_observations_of_frames_have_no_scale():
  found, _ = play("slipway.environments.minatar:MinAtar/Breakout-v1")
  assert found.observation_scale.size == 0 and np.isnan(found.unpredictable)


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


def measure(name, fields=None, **kwargs):
  return random_play.play(given.config_of(name, fields, **kwargs), 0.05)


def test_rewards_lengths_and_ends():
  found = measure("tests.environments.toys:Catch", rows=5)
  assert {*found.raw_rewards} == {-1.0, 0.0, 1.0}
  assert np.mean(found.raw_rewards != 0) == pytest.approx(0.25, rel=0.3)
  assert {*found.lengths} == {4} and {*found.returns} == {-1.0, 1.0}
  assert found.terminations == len(found.lengths)
  assert found.longest_unfinished < 4
  ends = sum(found.lengths)
  assert ends <= found.steps <= ends + 4 * found.longest_unfinished
  assert not found.observation_low.any()
  assert np.array_equal(found.observation_high, np.ones((5, 5)))
  assert found.is_reproducible and found.starts_vary
  assert found.steps_per_s > 0 and found.legal_share == 1.0


def test_an_episode_that_does_not_end_has_no_return():
  found = measure("Pendulum-v1", {"time_limit": 10**8})
  assert found.returns == found.lengths == []
  assert found.terminations == 0 and found.longest_unfinished > 0
  assert found.steps == 4 * found.longest_unfinished


@pytest.mark.parametrize("is_random", [False, True])
def test_masks_truncation_and_seeds(is_random):
  name, fields = f"{__name__}:Timed", {"action_mask": True}
  found = measure(name, fields, is_random=is_random)
  assert found.legal_share == 0.25
  assert found.terminations == 0
  assert {*found.lengths} == {3} and {*found.raw_rewards} == {2.0}
  assert found.observation_low.shape == (2,)
  assert found.observation_high[1] == 3.0
  assert found.is_reproducible == (not is_random)
  assert found.starts_vary == is_random
  assert found.spec == factory.make_spec(given.config_of(name, fields))
