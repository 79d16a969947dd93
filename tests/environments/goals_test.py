"""Tests of goals: rewards equal the environment's own, or are rejected."""

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from slipway.environments import factory, goals
from tests.environments import given, toys

NAMES = {name: f"{toys.__name__}:{name}-v0" for name in
         ("BitFlipping", "Reaching")}  # fmt: skip


class Changed(toys.Reaching):
  """An environment whose `compute_reward` differs from its steps' rewards."""

  def compute_reward(self, achieved_goal, desired_goal, info):
    reward = super().compute_reward(achieved_goal, desired_goal, info)
    self.calls = getattr(self, "calls", 0) + 1
    return reward if self.calls % 2 else reward + 1.0


class Ending(toys.Reaching):
  """An environment whose `compute_terminated` differs from its steps."""

  def compute_terminated(self, achieved_goal, desired_goal, info):
    return True


class Failing(toys.Reaching):
  """An environment whose rewards need an entry of the steps' infos."""

  def compute_reward(self, achieved_goal, desired_goal, info):
    return -1.0 if achieved_goal is self._position else info["weight"]


class Infinite(toys.Reaching):
  """An environment with a reward that is infinite at the goal."""

  def compute_reward(self, achieved_goal, desired_goal, info):
    with np.errstate(divide="ignore"):
      return 1.0 / np.linalg.norm(achieved_goal - desired_goal)


class Unequal(toys.Reaching):
  """An environment whose goals have two shapes."""

  def __init__(self):
    super().__init__()
    box = spaces.Box(-1.0, 1.0, (3,), np.float32)
    self.observation_space["desired_goal"] = box

  def _observe(self):
    return super()._observe() | {"desired_goal": np.zeros(3, np.float32)}

  def compute_reward(self, achieved_goal, desired_goal, info):
    return 0.0


for _class in (Changed, Ending, Failing, Infinite, Unequal):
  gymnasium.register(f"{_class.__name__}-v0", f"{__name__}:{_class.__name__}")


@pytest.mark.parametrize("name", NAMES.values())
@pytest.mark.parametrize("fields", [{}, {"reward_scale": 2.0}])
def test_rewards_of_the_own_goals_are_those_of_the_steps(name, fields):
  config = given.config_of(name, fields)
  found = goals.Goals(config)
  found.check()
  environment = factory.make(config, 3, seed=1)
  step, random = environment.reset(), np.random.default_rng(0)
  for _ in range(100):
    actions = environment.sample_actions(step.observation, random)
    step = environment.step(actions)
    reward, terminated = found.compute(
      step.observation[:, found.achieved],
      step.observation[:, found.desired],
      step.terminated,
    )
    np.testing.assert_array_equal(reward[~step.first], step.reward[~step.first])
    real = ~step.first
    np.testing.assert_array_equal(terminated[real], step.terminated[real])
  environment.close()
  found.close()


def test_without_compute_terminated_the_given_flags_remain():
  found = goals.Goals(given.config_of(NAMES["Reaching"]))
  flags = np.array([True, False])
  reward, terminated = found.compute(np.zeros((2, 2)), np.ones((2, 2)), flags)
  np.testing.assert_array_equal(reward, [-1.0, -1.0])
  np.testing.assert_array_equal(terminated, flags)
  found.close()


@pytest.mark.parametrize(
  ("name", "match"),
  [
    ("CartPole-v1", "lacks goals .*its observations are Box"),
    (f"{__name__}:Unequal-v0", "lacks goals .*two Boxes of one shape"),
    (f"{__name__}:Changed-v0", "compute_reward.* is 0.0, where step"),
    (f"{__name__}:Ending-v0", "compute_terminated.* is True, where step"),
    (f"{__name__}:Failing-v0", "KeyError: 'weight'"),
  ],
)
def test_other_environments_are_rejected_in_one_line(name, match):
  with given.one_line(Exception, match=match):
    goals.Goals(given.config_of(name)).check()


def test_an_infinite_reward_is_an_error_of_the_environment():
  found = goals.Goals(given.config_of(f"{__name__}:Infinite-v0"))
  found.check()
  with given.one_line(match="nothing can be learned", kind=Exception):
    found.compute(np.zeros((1, 2)), np.zeros((1, 2)), np.zeros(1, bool))
  found.close()
