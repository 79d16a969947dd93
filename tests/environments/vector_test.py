"""Tests of VectorEnvironment: ownership of arrays, and seeds."""

import numpy as np
import pytest

from slipway.environments import factory
from tests.environments import given


@pytest.mark.parametrize(
  ("name", "fields"),
  [
    ("CartPole-v1", {}),
    ("Pendulum-v1", {}),
    ("FrozenLake-v1", {}),
    ("ALE/Pong-v5", {"time_limit": 12}),
  ],
)
def test_the_caller_owns_the_returned_arrays(name, fields):
  environment = factory.make(given.config_of(name, fields), 2, seed=3)
  action = environment.spec.actions.generate_value()
  actions = np.stack([action, action])
  step = environment.reset()
  kept = list(step)
  for _ in range(40):
    step = environment.step(actions)
    assert step.reward.dtype == np.float32
    for flags in (step.terminated, step.truncated, step.first):
      assert flags.dtype == np.bool_
      assert flags.shape == (2,)
    kept += step
  copies = [array.copy() for array in kept]
  assert kept[-6].flags.c_contiguous
  assert kept[-6].dtype == environment.spec.observations.dtype
  for one in kept[-6]:
    environment.spec.observations.validate(one)
  for _ in range(40):
    environment.step(actions)
  environment.close()
  for array, copy in zip(kept, copies, strict=True):
    np.testing.assert_array_equal(array, copy)


@pytest.mark.parametrize(
  ("name", "fields"),
  [
    ("CartPole-v1", {}),
    ("Pendulum-v1", {}),
    ("FrozenLake-v1", {}),
    ("ALE/Pong-v5", {"time_limit": 25}),
  ],
)
def test_trajectories_depend_on_the_seed_only(name, fields):
  def play(seed):
    environment = factory.make(given.config_of(name, fields), 3, seed)
    rng = np.random.default_rng(0)
    action = environment.spec.actions
    steps = [environment.reset().observation]
    for _ in range(60):
      if np.issubdtype(action.dtype, np.integer):
        actions = np.full(3, rng.integers(action.num_values), np.int32)
      else:
        actions = np.full((3, 1), rng.uniform(-1, 1), np.float32)
      steps.append(environment.step(actions).observation)
    steps.append(environment.reset().observation)
    return np.stack(steps)  # [T, B, ...]

  same, again, other = play(7), play(7), play(8)
  np.testing.assert_array_equal(same, again)
  assert (same != other).any()
  # Seeds 7 and 8 share no environment: 8 + 0 is not the same as 7 + 1.
  trajectories = [*np.moveaxis(same, 1, 0), *np.moveaxis(other, 1, 0)]
  for index, one in enumerate(trajectories):
    for later in trajectories[index + 1 :]:
      assert (one != later).any()


def test_a_step_needs_a_reset():
  environment = factory.make(given.config_of("CartPole-v1"), 1, seed=0)
  with pytest.raises(RuntimeError, match="reset"):
    environment.step(np.zeros(1, np.int32))
