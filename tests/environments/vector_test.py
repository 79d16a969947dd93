"""Tests of VectorEnvironment: ownership of arrays, flags, and seeds."""

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.envs import registration

from slipway.environments import checked, factory, vector
from tests.environments import given


class Reusing(gymnasium.vector.VectorEnv):
  """Batched simulator that writes each step's results to the same arrays.

  The environments' episodes end in turn: that of environment t % B in step t,
  alternately by termination and by truncation. The reward of step t is t.
  """

  def __init__(self, num_envs, dtype="bool", shape=()):
    self.num_envs = num_envs
    self.single_observation_space = spaces.Box(0.0, 99.0, (2,), np.float32)
    self.single_action_space = spaces.Discrete(2)
    self.metadata = {"autoreset_mode": gymnasium.vector.AutoresetMode.NEXT_STEP}
    self._steps = 0
    self._observations = np.zeros((num_envs, 2), np.float32)
    self._rewards = np.zeros(num_envs, np.float32)
    self._flags = np.zeros((2, num_envs, *shape), dtype)

  def reset(self, *, seed=None, options=None):
    return self._observations, {}

  def step(self, actions):
    self._steps += 1
    self._observations[:], self._rewards[:] = self._steps, self._steps
    self._flags[:] = 0
    self._flags[self._steps % 2, self._steps % self.num_envs] = 1
    return self._observations, self._rewards, *self._flags, {}


@pytest.fixture
def reusing():
  """Registers `Reusing` under the id 'Reusing-v0'."""
  gymnasium.register("Reusing-v0", vector_entry_point=Reusing)
  yield
  del gymnasium.registry["Reusing-v0"]


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


@pytest.mark.usefixtures("reusing")
@pytest.mark.parametrize("dtype", ["bool", "uint8", "int32"])
def test_results_in_reused_arrays_are_copied_and_flags_become_bools(dtype):
  config = given.config_of("Reusing-v0", dtype=dtype)
  environment = factory.make(config, 3, seed=0)
  environment.reset()
  steps = [environment.step(np.zeros(3, np.int32)) for _ in range(6)]
  ended = np.zeros(3, np.bool_)
  for at, step in enumerate(steps, start=1):
    np.testing.assert_array_equal(step.observation, np.full((3, 2), at))
    for rewards in (step.reward, step.raw_reward):
      np.testing.assert_array_equal(rewards, np.full(3, at))
    for flags in (step.terminated, step.truncated, step.first):
      assert flags.dtype == np.bool_
    np.testing.assert_array_equal(step.first, ended)
    ended = np.arange(3) == at % 3
    none = np.zeros(3, np.bool_)
    np.testing.assert_array_equal(step.terminated, none if at % 2 else ended)
    np.testing.assert_array_equal(step.truncated, ended if at % 2 else none)


@pytest.mark.usefixtures("reusing")
@pytest.mark.parametrize(
  ("kwargs", "text"),
  [
    ({"shape": (1,)}, "terminated bool [3, 1], "),
    ({"dtype": "float32"}, "terminated float32 [3], "),
  ],
)
def test_flags_of_another_shape_or_type_are_a_fault(kwargs, text):
  config = given.config_of("Reusing-v0", **kwargs)
  environment = factory.make(config, 3, seed=0)
  environment.reset()
  with given.one_line(checked.EnvironmentFailedError) as caught:
    environment.step(np.zeros(3, np.int32))
  assert caught.value.line.startswith("environment Reusing-v0 (")
  assert text in caught.value.line


class Shared(gymnasium.Env):
  """Environment whose instances write observations to one array or dict.

  An observation is the instance's number times 10, plus the steps so far.
  """

  action_space = spaces.Discrete(2)
  made, array, parts = 0, np.zeros(1, np.float32), {}

  def __init__(self, kind):
    self._number, self._kind = 10 * Shared.made, kind
    Shared.made += 1
    self.observation_space = spaces.Box(0.0, 99.0, (1,), np.float32)
    if kind == "dict":
      self.observation_space = spaces.Dict({"number": self.observation_space})

  def reset(self, *, seed=None, options=None):
    self._steps = 0
    if self._kind == "array after a reset":
      return np.array([self._number], np.float32), {}
    return self._observe(), {}

  def step(self, action):
    self._steps += 1
    return self._observe(), 0.0, False, False, {}

  def _observe(self):
    number = self._number + self._steps
    if self._kind == "dict":
      Shared.parts["number"] = np.array([number], np.float32)
      return Shared.parts
    Shared.array[:] = number
    return Shared.array


@pytest.mark.parametrize("kind", ["array", "array after a reset", "dict"])
def test_environments_may_share_an_array_of_observations(kind, monkeypatch):
  spec = registration.EnvSpec("Shared-v0", entry_point=Shared)
  monkeypatch.setitem(gymnasium.registry, "Shared-v0", spec)
  monkeypatch.setattr(Shared, "made", 0)
  config = given.config_of("Shared-v0", kind=kind)
  environment = factory.make(config, 3, seed=0)
  steps = [environment.reset()]
  steps += [environment.step(np.zeros(3, np.int32)) for _ in range(3)]
  for at, step in enumerate(steps):
    assert step.observation[:, 0].tolist() == [at, 10 + at, 20 + at]


class Typed(Reusing):
  """Batched simulator whose observations have a type of their own."""

  def __init__(self, num_envs, observation, space):
    super().__init__(num_envs)
    self.single_observation_space = space
    batch = gymnasium.vector.utils.create_empty_array(space, num_envs)
    if isinstance(space, spaces.Dict):
      self._before = batch
      self._after = {**batch, "level": observation}
    else:
      self._before, self._after = batch, observation

  def reset(self, *, seed=None, options=None):
    return self._before, {}

  def step(self, actions):
    flags = np.zeros((2, self.num_envs), np.bool_)
    return self._after, np.zeros(self.num_envs), *flags, {}


_BYTES = spaces.Box(0, 255, (2,), np.uint8)
_LEVEL = spaces.Dict({"level": spaces.Discrete(3), "other": _BYTES})


@pytest.mark.parametrize(
  ("observation", "space", "text"),
  [
    (np.full((3, 2), 0.7), _BYTES, "observations of type float64"),
    (np.full((3, 2), np.nan, np.float32), _BYTES, "of type float32"),
    (np.full((3, 2), 300), _BYTES, "observations of type int64"),
    (np.full(3, 0.7), _LEVEL, "observations['level'] of type float64"),
  ],
)
def test_observations_of_another_type_are_a_fault(observation, space, text):
  envs = Typed(3, observation, space)
  environment = vector.VectorEnvironment(envs, "Own-v0", seed=1)
  environment.reset()
  with given.one_line(checked.EnvironmentFailedError) as caught:
    environment.step(np.zeros(3, np.int32))
  assert "step() of the vector environment returned " in caught.value.line
  assert text in caught.value.line


@pytest.mark.parametrize(
  ("observation", "space"),
  [
    (np.full((3, 2), 0.5), spaces.Box(0.0, 1.0, (2,), np.float32)),
    (np.full((3, 2), 1, np.uint8), spaces.Box(0.0, 1.0, (2,), np.float32)),
    (np.full((3, 2), True), _BYTES),
    (np.full(3, 1, np.int32), _LEVEL),
  ],
)
def test_observations_of_a_similar_type_are_converted(observation, space):
  envs = Typed(3, observation, space)
  environment = vector.VectorEnvironment(envs, "Own-v0", seed=1)
  environment.reset()
  step = environment.step(np.zeros(3, np.int32))
  assert step.observation.dtype == environment.spec.observations.dtype
  if isinstance(space, spaces.Dict):
    np.testing.assert_array_equal(step.observation[:, :3], [[0, 1, 0]] * 3)
  else:
    np.testing.assert_array_equal(step.observation, observation)


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
