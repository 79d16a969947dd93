"""Tests of the context by which environments know their place in a run."""

import gymnasium
import ml_collections
import numpy as np
import pytest

from slipway.environments import context, factory

made = []


class Placed(gymnasium.Env):
  """An environment that records the context of its constructor."""

  observation_space = gymnasium.spaces.Box(0, 1, (2,), np.float32)
  action_space = gymnasium.spaces.Discrete(2)

  def __init__(self):
    made.append(context.environment_context())

  def reset(self, *, seed=None, options=None):
    super().reset(seed=seed)
    return np.zeros(2, np.float32), {}

  def step(self, action):
    return np.zeros(2, np.float32), 0.0, True, False, {}


@pytest.fixture(autouse=True)
def clear():
  made.clear()


def make(num_envs, **place):
  config = ml_collections.ConfigDict(
    {"name": f"{__name__}:Placed", "game": "", "kwargs": {}}
  )
  factory.make(config, num_envs, 0, **place).close()


def test_each_environment_of_a_process_has_its_index():
  make(3, role="worker", worker=2)
  assert made == [("worker", 2, 0), ("worker", 2, 1), ("worker", 2, 2)]
  make(1, role="evaluator")
  assert made[3:] == [("evaluator", 0, 0)]


def test_outside_of_a_run_the_context_is_empty():
  Placed()
  make(1)
  assert made == [("", 0, 0)] * 2
