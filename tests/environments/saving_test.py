"""Tests of saving: exactly saved environments continue equally."""

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.classic_control import cartpole
from gymnasium.utils import ezpickle

from slipway.environments import factory, saving
from tests.environments import given

NUM_ENVS = 3


def play(environment, actions):
  """Returns the results of steps, as bytes."""
  return [
    b"".join(array.tobytes() for array in environment.step(action))
    for action in actions
  ]


def make_actions(name, steps, seed):
  random = np.random.default_rng(seed)
  if name.startswith("Pendulum"):
    actions = random.uniform(-1, 1, (steps, NUM_ENVS, 1))
    return actions.astype(np.float32)
  spec = factory.make_spec(given.config_of(name)).actions
  return random.integers(spec.num_values, size=(steps, NUM_ENVS), dtype="int32")


@pytest.mark.parametrize(
  "name", ["CartPole-v1", "Pendulum-v1", "MountainCar-v0", "FrozenLake-v1"]
)
def test_environments_continue_equally(name):
  config = given.config_of(name)
  assert saving.is_exact(config)
  environment = factory.make(config, NUM_ENVS, seed=3)
  environment.reset()
  play(environment, make_actions(name, 250, seed=0))
  state, actions = environment.get_state(), make_actions(name, 450, seed=1)
  expected = play(environment, actions)
  # Some episodes end, so that autoresets use the restored generators.
  ended = [step.first.any() for step in map(environment.step, actions)]
  assert any(ended)
  other = factory.make(config, NUM_ENVS, seed=4)
  for _ in range(2):  # a state can be restored repeatedly
    other.reset()
    other.set_state(state)
    assert play(other, actions) == expected
  environment.close()
  other.close()


def test_a_reset_after_a_restore_uses_the_restored_generators():
  config = given.config_of("CartPole-v1")
  one, other = (factory.make(config, NUM_ENVS, seed) for seed in (3, 4))
  one.reset()
  other.set_state(one.get_state())
  assert (
    other.reset().observation.tobytes() == one.reset().observation.tobytes()
  )


class Forgetful(gymnasium.Env, ezpickle.EzPickle):
  """Environment whose pickle has only its arguments, so its time is lost."""

  observation_space = gymnasium.spaces.Box(0.0, 1.0, (1,), np.float64)
  action_space = gymnasium.spaces.Discrete(2)

  def __init__(self):
    ezpickle.EzPickle.__init__(self)
    self._time = 0

  def reset(self, seed=None, options=None):
    super().reset(seed=seed)
    return self._observe(), {}

  def step(self, action):
    self._time += 1
    return self._observe(), 0.0, False, False, {}

  def _observe(self):
    return np.array([self._time / 1e6])


class Unseeded(Forgetful):
  """Environment that uses a global generator, which no seed sets."""

  def __getstate__(self):
    return vars(self)

  def __setstate__(self, state):
    vars(self).update(state)

  def _observe(self):
    return np.random.random(1)  # noqa: NPY002 the fault that the test detects


@pytest.mark.parametrize("kind", [Forgetful, Unseeded])
def test_environments_that_are_not_exactly_saved_are_detected(kind):
  name = f"{kind.__name__}-v0"
  options = {"disable_env_checker": True, "order_enforce": False}
  with given.registered(name, kind, **options):
    assert not saving.is_exact(given.config_of(name))


class Unclosable(cartpole.CartPoleEnv):
  """Environment that is saved exactly, but fails in its `close`."""

  def close(self):
    raise ValueError("left")


def test_a_failing_close_is_only_logged(caplog):
  with given.registered("Unclosable-v0", Unclosable, max_episode_steps=500):
    assert saving.is_exact(given.config_of("Unclosable-v0"))
  assert caplog.text.count("close() raised ValueError: left") == 2


@pytest.mark.parametrize("name", ["LunarLander-v3", "ALE/Pong-v5"])
def test_environments_of_native_code_are_not_saved(name):
  assert not saving.is_exact(given.config_of(name))


def test_an_environment_that_cannot_be_made_is_an_error():
  with pytest.raises(ValueError, match=r"config\.environment\.name"):
    saving.is_exact(given.config_of("CartPole-v999"))


def test_the_test_can_be_stopped():
  calls = []

  def should_stop():
    calls.append(None)
    return len(calls) > 7

  assert saving.is_exact(given.config_of("CartPole-v1"), should_stop) is None
  assert len(calls) == 8
