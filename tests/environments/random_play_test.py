"""Tests of what random play reveals about environments and their wrappers."""

import gymnasium
import ml_collections
import numpy as np
import pytest
from gymnasium.envs.classic_control import cartpole

from slipway.configs import dqn
from slipway.environments import random_play


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


class Endless(gymnasium.Wrapper):
  def step(self, action):
    observation, reward, terminated, truncated, info = super().step(action)
    return observation, reward, False, terminated or truncated, info


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
  return random_play.play(config, seconds=0.5)


@pytest.mark.parametrize("name", ["CartPole-v1", "Pendulum-v1", "Acrobot-v1"])
def test_a_good_environment_has_no_faults(name):
  found = play(name)
  assert found.single.faults == []
  assert found.single.is_seeded and not found.single.has_one_start
  assert found.single.reaction > 1 and not found.single.small_is_large
  assert found.unpredictable == 0 and found.is_finite


@pytest.mark.parametrize(
  ("name", "wrapper", "kind"),
  [
    ("CartPole-v1", Negated, "reward sign"),
    ("CartPole-v1", Large, "reward scale"),
    ("CartPole-v1", Limited, "truncation"),
    ("CartPole-v1", Endless, "termination"),
    ("CartPole-v1", Unseeded, "seed"),
    ("Pendulum-v1", Weak, "action scale"),
    ("Pendulum-v1", Strong, "action scale"),
    ("Pendulum-v1", Harmless, None),
  ],
)
def test_the_fault_of_one_wrapper_among_others(name, wrapper, kind):
  faults = play(name, Harmless, wrapper, Harmless).single.faults
  expected = [(kind, wrapper.__name__)] if kind else []
  assert [(x.kind, x.wrapper) for x in faults] == expected


class Derived(cartpole.CartPoleEnv):
  """Pays for failing."""

  def step(self, action):
    observation, reward, *others = super().step(action)
    return observation, -reward, *others


def test_a_class_is_compared_with_the_class_of_gymnasium_that_it_extends():
  (fault,) = play(f"{__name__}:Derived").single.faults
  assert fault == ("reward sign", "Derived", -1.0)


def test_positions_without_velocities_need_the_previous_ones():
  assert play("Pendulum-v1", Positions).unpredictable == 1.0
  assert play("Pendulum-v1", Positions).steps > 400


def test_episodes_are_measured():
  found = play("CartPole-v1")
  assert found.terminations == len(found.lengths) == len(found.returns)
  assert found.returns == found.lengths  # a reward of 1 per step
  assert found.reward_threshold == 475.0
  assert 0 < found.step_s < 1


def test_observations_of_frames_have_no_scale():
  found = play("slipway.environments.minatar:MinAtar/Breakout-v1")
  assert found.observation_scale.size == 0 and np.isnan(found.unpredictable)
