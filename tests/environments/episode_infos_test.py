"""Tests of the numbers that are kept from the infos of episodes' last steps."""

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from slipway.environments import factory
from tests.environments import given

NAMES = ("is_success", "distance")


class Reporting(gymnasium.Env):
  """Environment of episodes of 2 steps, whose infos have the given values."""

  observation_space = spaces.Box(0.0, 9.0, (1,), np.float32)
  action_space = spaces.Discrete(2)

  def __init__(self, infos, truncates=False):
    self._infos, self._truncates = infos, truncates
    self._episode = -1

  def reset(self, *, seed=None, options=None):
    super().reset(seed=seed)
    self._step = 0
    self._episode += 1
    return np.zeros(1, np.float32), {"is_success": True}

  def step(self, action):
    self._step += 1
    ends = self._step == 2
    info = {"is_success": True}  # of a step that is not the last one
    if ends:
      info = self._infos[self._episode % len(self._infos)]
    ended = (False, ends) if self._truncates else (ends, False)
    return np.zeros(1, np.float32), 0.0, *ended, info


class ReportingVector(gymnasium.vector.VectorEnv):
  """Three environments in one, of which each episode has 2 steps."""

  single_observation_space = spaces.Box(0.0, 9.0, (1,), np.float32)
  single_action_space = spaces.Discrete(2)
  observation_space = spaces.Box(0.0, 9.0, (3, 1), np.float32)
  action_space = spaces.MultiDiscrete([2, 2, 2])
  num_envs = 3

  def __init__(self, num_envs, infos):
    assert num_envs == self.num_envs
    mode = gymnasium.vector.AutoresetMode.NEXT_STEP
    self.metadata = {"autoreset_mode": mode}
    self._infos = infos

  def reset(self, *, seed=None, options=None):
    self._step = 0
    return np.zeros((3, 1), np.float32), {}

  def step(self, actions):
    self._step += 1
    ends = np.array([True, self._step % 3 == 2, False])
    return (
      *(np.zeros((3, 1), np.float32), np.zeros(3), ends, np.zeros(3, bool)),
      self._infos,
    )


HERE = __name__
ZEROS = np.zeros(3, np.int32)
gymnasium.register(
  "ReportingVector-v0", vector_entry_point=f"{HERE}:ReportingVector"
)


def last_info(config, names=NAMES):
  """Returns the info of a step in which episodes end, and of one before it."""
  environment = factory.make(config, 3, seed=0, info_names=names)
  environment.reset()
  return list_infos(environment, 2)


def list_infos(environment, steps):
  """Returns the environment's `info` after each of some steps."""
  found = []
  for _ in range(steps):
    environment.step(ZEROS)
    found.append(environment.info)
  return found


@pytest.mark.parametrize("truncates", [False, True])
def test_numbers_of_an_episodes_last_step(truncates):
  infos = [{"is_success": True, "distance": np.float32([0.5]), "other": 3}]
  config = given.config_of(f"{HERE}:Reporting", infos=infos)
  config.kwargs.truncates = truncates
  assert last_info(config, ()) == [{}] * 2  # no name is given
  before, last = last_info(config)
  assert before == {}
  assert {name: x.tolist() for name, x in last.items()} == {
    "is_success": [1.0] * 3,
    "distance": [0.5] * 3,
  }


@pytest.mark.parametrize("value", ["yes", None, [1.0], np.zeros(2), np.nan])
def test_what_is_no_number_is_left_out(value):
  infos = [{"is_success": value, "distance": 2}]
  config = given.config_of(f"{HERE}:Reporting", infos=infos)
  assert last_info(config)[1].keys() == {"distance"}


def test_an_info_without_a_name():
  config = given.config_of(f"{HERE}:Reporting", infos=[{}, {"distance": 7}])
  environment = factory.make(config, 3, seed=0, info_names=NAMES)
  environment.reset()
  found = list_infos(environment, 5)
  assert found[:4] == [{}] * 4
  np.testing.assert_array_equal(found[4]["distance"], [7.0] * 3)


def test_an_environment_that_steps_a_whole_batch():
  config = given.config_of("ReportingVector-v0")
  config.kwargs.infos = {
    "is_success": np.array([True, False, True]),
    "distance": np.array([1.0, 2.0, 3.0]),
    "_distance": np.array([False, True, True]),
  }
  before, last = last_info(config)
  nan = np.nan
  np.testing.assert_array_equal(before["is_success"], [1.0, nan, nan])
  assert "distance" not in before
  np.testing.assert_array_equal(last["is_success"], [1.0, 0.0, nan])
  np.testing.assert_array_equal(last["distance"], [nan, 2.0, nan])
