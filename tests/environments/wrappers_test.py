"""Tests of the wrappers that each field of an environment section adds."""

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.envs import registration

from slipway.environments import checked, factory, saving, user_code
from tests.environments import given

HERE = __name__
ZERO = np.zeros(1, np.int32)


class Clock(gymnasium.Env):
  """Environment whose observations and rewards count its 7 steps."""

  observation_space = spaces.Box(0.0, 9.0, (1,), np.float32)
  action_space = spaces.Discrete(2)

  def reset(self, *, seed=None, options=None):
    super().reset(seed=seed)
    self._steps = 0
    return self._observe(), {}

  def step(self, action):
    self._steps += 1
    return self._observe(), float(self._steps), self._steps == 7, False, {}

  def _observe(self):
    return np.array([self._steps], np.float32)


class Reusing(Clock):
  """A `Clock` that writes all observations to the same arrays."""

  def __init__(self, is_dict=False):
    self._array = np.zeros(1, np.float32)
    self._result = self._array
    if is_dict:
      self._result = {"time": self._array}
      self.observation_space = spaces.Dict({"time": Clock.observation_space})

  def _observe(self):
    self._array[:] = self._steps
    return self._result


class Halving(Clock):
  """A `Clock` that halves its action in place and rewards the action."""

  action_space = spaces.Box(-1.0, 1.0, (1,), np.float32)

  def step(self, action):
    reward = float(action[0])
    action *= 0.5
    return *super().step(action)[:1], reward, False, False, {}


class TimesTen(gymnasium.ObservationWrapper):
  """Wrapper that multiplies observations by 10."""

  def observation(self, observation):
    return 10 * observation


def plus_one(env):
  space = env.observation_space
  return gymnasium.wrappers.TransformObservation(env, lambda x: x + 1, space)


def fail(env):
  raise RuntimeError("no\nsuch thing")


def nothing(env):
  return None


@pytest.fixture(autouse=True)
def registered():
  gymnasium.register("Clock-v0", entry_point=Clock)
  yield
  del gymnasium.registry["Clock-v0"]


def play(fields, steps, num_envs=1):
  """Returns the result of the reset, and those of the steps after it."""
  config = given.config_of("Clock-v0", fields)
  environment = factory.make(config, num_envs, seed=0)
  found = [environment.reset()]
  found += [environment.step(ZERO.repeat(num_envs)) for _ in range(steps)]
  environment.close()
  return found


def names(*attributes):
  return {"wrappers": tuple(f"{HERE}:{name}" for name in attributes)}


# Config fields, an episode's observations and rewards, whether it terminates.
TABLE = [
  ({}, [*range(8)], [*range(1, 8)], True),
  ({"frame_skip": 3}, [0, 3, 6, 7], [6, 15, 7], True),
  ({"time_limit": 2}, [0, 1, 2], [1, 2], False),
  ({"time_limit": 7}, [*range(8)], [*range(1, 8)], True),
  ({"time_limit": 2, "frame_skip": 3}, [0, 3, 6], [6, 15], False),
  (
    {"frame_stack": 3, "frame_skip": 3},
    [[0, 0, 0], [0, 0, 3], [0, 3, 6], [3, 6, 7]],
    [6, 15, 7],
    True,
  ),
  # The first wrapper is the innermost.
  ({**names("TimesTen", "plus_one"), "time_limit": 2}, [1, 11, 21], [1, 2], 0),
  (
    {**names("TimesTen"), "frame_stack": 2, "time_limit": 2},
    [[0, 0], [0, 10], [10, 20]],
    [1, 2],
    False,
  ),
]


@pytest.mark.parametrize(
  ("fields", "observations", "rewards", "terminated"), TABLE
)
def test_observations_rewards_and_end_of_an_episode(
  fields, observations, rewards, terminated
):
  first, *steps, reset = play(fields, len(rewards) + 1)
  seen = [first.observation, *(step.observation for step in steps)]
  assert [x[0].squeeze().tolist() for x in seen] == observations
  assert [float(step.reward[0]) for step in steps] == rewards
  assert [bool(s.terminated[0] or s.truncated[0]) for s in steps] == [
    *[False] * (len(steps) - 1), True,
  ]  # fmt: skip
  assert steps[-1].terminated[0] == terminated
  assert reset.first[0]
  np.testing.assert_array_equal(reset.observation, first.observation)


@pytest.mark.parametrize("is_dict", [False, True])
def test_a_stack_has_the_frames_of_an_environment_that_reuses_its_arrays(
  is_dict,
):
  config = given.config_of(
    f"{HERE}:Reusing", {"frame_stack": 3}, is_dict=is_dict
  )
  environment = factory.make(config, 1, seed=0)
  steps = [environment.reset()]
  steps += [environment.step(ZERO) for _ in range(3)]
  assert [step.observation.reshape(-1).tolist() for step in steps] == [
    [0, 0, 0], [0, 0, 1], [0, 1, 2], [1, 2, 3],
  ]  # fmt: skip
  assert saving.is_exact(config)


# Config fields, and the rewards for learning, of the raw rewards 1, 2 and 3.
REWARDS = [
  ({}, [1, 2, 3]),
  ({"reward_scale": 0.5}, [0.5, 1, 1.5]),
  ({"reward_clip": 2.0}, [1, 2, 2]),
  ({"reward_scale": 0.5, "reward_clip": 1.0}, [0.5, 1, 1]),
  ({"reward_scale": 2.0, "reward_clip": 4.0}, [2, 4, 4]),
]


@pytest.mark.parametrize(("fields", "learned"), REWARDS)
def test_rewards(fields, learned):
  _, *steps = play(fields, 3, num_envs=2)
  assert [s.reward.tolist() for s in steps] == [[r, r] for r in learned]
  assert [s.raw_reward.tolist() for s in steps] == [[1, 1], [2, 2], [3, 3]]
  for step in steps:
    assert step.reward.dtype == np.float32
    assert step.raw_reward.dtype == np.float64


def test_negative_rewards_are_clipped():
  config = given.config_of("Pendulum-v1", {"reward_clip": 0.25})
  environment = factory.make(config, 3, seed=0)
  environment.reset()
  step = environment.step(np.zeros((3, 1), np.float32))
  np.testing.assert_array_equal(
    step.reward, np.maximum(step.raw_reward.astype(np.float32), -0.25)
  )
  assert (step.raw_reward < 0).all()


class Counting(gymnasium.ObservationWrapper):
  """A wrapper that divides by the number of its observations so far."""

  def __init__(self, env):
    super().__init__(env)
    self.count = 0

  def observation(self, observation):
    self.count += 1
    return observation / np.float32(self.count)


# wrapper, field that replaces it, or None if its state is that of an episode
LASTING = [
  ("gymnasium.wrappers:NormalizeObservation", "normalization.observations"),
  ("gymnasium.wrappers:NormalizeReward", "normalization.rewards"),
  (f"{HERE}:Counting", "constants"),
  ("gymnasium.wrappers:RecordEpisodeStatistics", None),
  ("gymnasium.wrappers:MaxAndSkipObservation", None),
  ("gymnasium.wrappers:FlattenObservation", None),
]


@pytest.mark.parametrize(("name", "replacement"), LASTING)
def test_a_wrapper_whose_state_outlasts_episodes_is_named(
  name, replacement, caplog
):
  factory.make_spec(given.config_of("Clock-v0", {"wrappers": (name,)}))
  named = name.rpartition(":")[2]
  lines = [x for x in caplog.messages if "outlasts" in x]
  assert len(lines) == (replacement is not None)
  for line in lines:
    assert named in line and str(replacement) in line


def test_environments_of_a_vector_environment_are_wrapped_singly():
  config = given.config_of("CartPole-v1", {"frame_skip": 2, "time_limit": 3})
  environment = factory.make(config, 2, seed=0)
  environment.reset()
  steps = [environment.step(np.zeros(2, np.int32)) for _ in range(3)]
  assert [step.reward.tolist() for step in steps] == [[2.0, 2.0]] * 3
  assert steps[-1].truncated.all()


def test_a_vector_environment_without_a_time_limit_is_stepped_singly():
  gymnasium.register(
    "Batch-v0", entry_point=Clock, vector_entry_point=lambda num_envs: None
  )
  config = given.config_of("Batch-v0", {"time_limit": 2})
  environment = factory.make(config, 2, seed=0)
  del gymnasium.registry["Batch-v0"]
  environment.reset()
  steps = [environment.step(ZERO.repeat(2)) for _ in range(2)]
  assert [step.truncated.all() for step in steps] == [False, True]


@pytest.mark.parametrize(
  "fields",
  [{"frame_skip": 2, "frame_stack": 2, "time_limit": 5}, names("TimesTen")],
)
def test_wrapped_environments_are_saved_exactly(fields):
  assert saving.is_exact(given.config_of("CartPole-v1", fields))


@pytest.mark.parametrize(
  ("name", "fields", "texts"),
  [
    ("Clock-v0", {"wrappers": ("absent:X",)}, ["'absent:X'", "ModuleNotFound"]),
    ("Clock-v0", names("Absent"), [":Absent'", "AttributeError"]),
    ("Clock-v0", names("HERE"), [":HERE'", "type str and can't be called"]),
    ("Clock-v0", names("nothing"), [":nothing'", "type NoneType"]),
    (
      "Clock-v0",
      {"wrappers": ("gymnasium.wrappers:ResizeObservation",)},
      ["ResizeObservation'", "missing 1 required", "your own function"],
    ),
    (
      "ALE/Pong-v5",
      {"frame_skip": 2},
      [".frame_skip is 2", "kwargs.frameskip"],
    ),
    (
      "ALE/Pong-v5",
      {"frame_stack": 2},
      [".frame_stack is 2", "kwargs.stack_n"],
    ),
    (
      "ALE/Pong-v5",
      names("plus_one"),
      [".wrappers is ('", "leave wrappers out"],
    ),
  ],
)
def test_errors_are_one_line(name, fields, texts):
  with given.one_line(ValueError) as caught:
    factory.make_spec(given.config_of(name, fields))
  message = str(caught.value)
  for text in ["config.environment.", *texts]:
    assert text in message


def test_a_scaled_reward_that_is_absurd_is_a_fault():
  with pytest.raises(checked.EnvironmentFailedError) as caught:
    play({"reward_scale": 3e14}, 5, num_envs=2)
  assert "(index 0, seed " in caught.value.line
  assert ", step 4): step() returned a reward that " in caught.value.line
  assert "reward_scale makes 1.2e+15" in caught.value.line
  clipped = play({"reward_scale": 3e14, "reward_clip": 1.0}, 5)
  assert [step.reward[0] for step in clipped[1:]] == [1.0] * 5


def test_each_skipped_frame_gets_the_same_action(monkeypatch):
  spec = registration.EnvSpec("Halving-v0", entry_point=Halving)
  monkeypatch.setitem(gymnasium.registry, "Halving-v0", spec)
  config = given.config_of("Halving-v0", {"frame_skip": 3})
  environment = factory.make(config, 2, seed=0)
  environment.reset()
  step = environment.step(np.float32([[1.0], [0.5]]))
  assert step.reward.tolist() == [3.0, 1.5]


def test_an_error_in_a_wrapper_is_shown_with_its_lines():
  with pytest.raises(user_code.UserCodeError) as caught:
    factory.make_spec(given.config_of("Clock-v0", names("fail")))
  assert "environment Clock-v0: the wrapper '" in caught.value.line
  assert "raised RuntimeError: no" in caught.value.line
  assert "in fail" in caught.value.traceback
