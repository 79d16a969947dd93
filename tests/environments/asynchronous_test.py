"""Tests of asynchronous environments: equal results, overlapping steps."""

import gc
import threading
import time
import typing
import weakref

import gymnasium
import numpy as np
import pytest
from gymnasium.envs import registration
from gymnasium.envs.classic_control import cartpole
from gymnasium.envs.toy_text import frozen_lake

from slipway.environments import checked, factory
from tests import polling
from tests.environments import given


class Waiting(frozen_lake.FrozenLakeEnv):
  """Environment that waits in each step, and fails in a given one."""

  alive: typing.ClassVar[weakref.WeakSet] = weakref.WeakSet()

  def __init__(self, wait_s=0.0, fails_at=0):
    super().__init__()
    self.alive.add(self)
    self._wait_s, self._fails_at, self._steps = wait_s, fails_at, 0

  def step(self, action):
    time.sleep(self._wait_s)
    self._steps += 1
    if self._steps == self._fails_at:
      raise RuntimeError("boom")
    return super().step(action)


@pytest.fixture(autouse=True)
def registered():
  gymnasium.register("Waiting-v0", Waiting, max_episode_steps=20)
  yield
  del gymnasium.registry["Waiting-v0"]


def make(name, num_envs, asynchronous=True, **kwargs):
  config = given.config_of(name, **kwargs)
  config.asynchronous = asynchronous
  return factory.make(config, num_envs, seed=5)


def play(environment, steps):
  random = np.random.default_rng(0)
  action = environment.spec.actions
  made = []
  for _ in range(steps):
    if np.issubdtype(action.dtype, np.integer):
      size = environment.num_envs
      actions = random.integers(action.num_values, size=size, dtype=np.int32)
    else:
      size = (environment.num_envs, *action.shape)
      actions = random.uniform(-1, 1, size).astype(np.float32)
    made.append(environment.step(actions))
  return made


def equal(steps, others):
  return all(
    one.tobytes() == other.tobytes()
    for step, same in zip(steps, others, strict=True)
    for one, other in zip(step, same, strict=True)
  )


@pytest.mark.parametrize("name", ["FrozenLake-v1", "Pendulum-v1"])
def test_results_are_bit_identical(name):
  made = []
  for asynchronous in (False, True):
    environment = make(name, 3, asynchronous)
    steps = [environment.reset(), *play(environment, 250)]
    made.append([*steps, environment.reset(), *play(environment, 20)])
    environment.close()
  assert sum(step.first.sum() for step in made[0]) > 6, "some episodes end"
  assert equal(*made)


def test_the_steps_of_a_batch_overlap():
  environment = make("Waiting-v0", 8, wait_s=0.1)
  environment.reset()
  began_s = time.monotonic()
  play(environment, 3)
  assert time.monotonic() - began_s < 8 * 3 * 0.1 / 2
  environment.close()


class Sleeping(cartpole.CartPoleEnv):
  """Environment with a vector environment, whose single steps take 0.1 s."""

  def step(self, action):
    time.sleep(0.1)
    return super().step(action)


def test_single_environments_replace_a_vector_environment(monkeypatch):
  spec = registration.EnvSpec(
    "Sleeping-v0",
    entry_point=Sleeping,
    vector_entry_point=cartpole.CartPoleVectorEnv,
  )
  monkeypatch.setitem(gymnasium.registry, "Sleeping-v0", spec)
  environment = make("Sleeping-v0", 8)
  environment.reset()
  began_s = time.monotonic()
  play(environment, 3)
  assert 3 * 0.1 <= time.monotonic() - began_s < 8 * 3 * 0.1 / 2
  environment.close()


@pytest.mark.parametrize(
  ("name", "text"),
  [("ALE/Pong-v5", "kwargs.num_threads"), ("Batch-v0", "set it to False")],
)
def test_an_id_without_single_environments_is_rejected(name, text, monkeypatch):
  spec = registration.EnvSpec("Batch-v0", vector_entry_point=lambda: None)
  monkeypatch.setitem(gymnasium.registry, "Batch-v0", spec)
  with given.one_line(ValueError, match=r"environment\.asynchronous") as caught:
    make(name, 2)
  assert text in str(caught.value)


def test_another_environment_continues_from_a_state():
  one, other = (make("FrozenLake-v1", 2) for _ in range(2))
  one.reset()
  other.reset()
  play(one, 7)
  other.set_state(one.get_state())
  assert equal(play(one, 50), play(other, 50))


def test_closed_environments_and_their_threads_end():
  before = threading.active_count()
  environment = make("Waiting-v0", 3)
  environment.reset()
  play(environment, 2)
  assert len(Waiting.alive) == 3
  environment.close()
  del environment
  polling.wait_until(lambda: threading.active_count() == before)
  gc.collect()
  assert not Waiting.alive


def test_a_failure_names_the_environment():
  environment = make("Waiting-v0", 3, fails_at=4)
  environment.reset()
  with pytest.raises(checked.EnvironmentFailedError) as caught:
    play(environment, 4)
  assert (caught.value.index, caught.value.step) == (0, 4)
  assert "step() raised RuntimeError: boom" in caught.value.line
  assert "asynchronous_test.py" in caught.value.traceback


class Shared(cartpole.CartPoleEnv):
  """Environment whose instances write observations to one array."""

  array = np.zeros(4, np.float32)

  def __init__(self, from_reset):
    super().__init__()
    self._from_reset = from_reset

  def reset(self, *, seed=None, options=None):
    observation, info = super().reset(seed=seed, options=options)
    return (self._share(observation) if self._from_reset else observation), info

  def step(self, action):
    observation, *others = super().step(action)
    return self._share(observation), *others

  def _share(self, observation):
    Shared.array[:] = observation
    return Shared.array


@pytest.mark.parametrize(
  ("from_reset", "call"), [(True, "reset()"), (False, "step()")]
)
def test_a_shared_array_of_observations_is_rejected(
  from_reset, call, monkeypatch
):
  spec = registration.EnvSpec("Shared-v0", entry_point=Shared)
  monkeypatch.setitem(gymnasium.registry, "Shared-v0", spec)
  environment = make("Shared-v0", 3, from_reset=from_reset)
  with pytest.raises(checked.EnvironmentFailedError) as caught:
    environment.reset()
    environment.step(np.zeros(3, np.int32))
  assert f"{call} of several environments returned the same" in str(
    caught.value
  )
  assert "environment.asynchronous=True" in str(caught.value)
  environment.close()
