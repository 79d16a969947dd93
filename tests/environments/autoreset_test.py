"""Tests of autoreset, against environments that are reset by hand."""

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers import AtariPreprocessing, FrameStackObservation

from slipway.environments import factory, vector
from tests.environments import given


class Corridor(gymnasium.Env):
  """Environment whose episode k has lengths[k] steps; rewards are the actions.

  An observation is (episode, step, sum of the episode's actions). These float64
  numbers are exact in float32.
  """

  action_space = spaces.Discrete(3, start=5)
  observation_space = spaces.Box(-np.inf, np.inf, (3,), np.float64)

  def __init__(self, lengths, truncates):
    self._lengths, self._truncates = lengths, truncates
    self._episode = -1

  def reset(self, *, seed=None, options=None):
    super().reset(seed=seed)
    self._episode += 1
    self._step, self._sum = 0, 0
    return self._observation(), {}

  def step(self, action):
    self._step += 1
    self._sum += action
    has_ended = self._step == self._lengths[self._episode]
    truncated = has_ended and self._truncates[self._episode]
    return (
      self._observation(),
      float(action),
      has_ended and not truncated,
      truncated,
      {},
    )

  def _observation(self):
    return np.array([self._episode, self._step, self._sum], np.float64)


class SteppedByHand:
  """Environment that is stepped by hand, and reset after each episode."""

  def __init__(self, env):
    self._env, self._has_ended = env, False
    self.opening, _ = env.reset(seed=0)

  def step(self, action):
    if self._has_ended:
      observation, _ = self._env.reset()
      self._has_ended = False
      return observation, 0.0, False, False, True
    observation, reward, terminated, truncated, _ = self._env.step(action)
    self._has_ended = terminated or truncated
    return observation, reward, terminated, truncated, False


def assert_step(step, index, expected):
  for name, found, wanted in zip(
    step._fields[:5], step[:5], expected, strict=True
  ):
    np.testing.assert_array_equal(found[index], wanted, err_msg=name)


def test_sync_equals_environments_stepped_by_hand():
  scripts = [
    ([3, 1, 2, 9, 9, 9], [False, True, False, True, False, False]),
    ([1, 1, 1, 1, 1, 1, 1, 1, 1, 9, 9, 9], [True, False] * 6),
    ([4, 5, 6, 7], [True] * 4),
  ]
  environment = vector.VectorEnvironment(
    SyncVectorEnv([lambda s=s: Corridor(*s) for s in scripts], copy=False),
    "Corridor",
    seed=0,
  )
  references = [SteppedByHand(Corridor(*script)) for script in scripts]
  opening = environment.reset()
  np.testing.assert_array_equal(
    opening.observation, [reference.opening for reference in references]
  )
  assert opening.first.all()
  assert not (opening.reward.any() or opening.terminated.any())
  rng = np.random.default_rng(0)
  ended = np.zeros(3, int)
  for _ in range(18):
    actions = rng.integers(0, 3, 3).astype(np.int32)
    step = environment.step(actions)
    for index, reference in enumerate(references):
      # The space is Discrete(3, start=5): action 0 of the agent is 5 there.
      assert_step(step, index, reference.step(int(actions[index]) + 5))
    ended += step.first
  assert (ended >= 3).all()


def test_the_action_of_an_autoreset_has_no_effect():
  def play(ignored):
    environment = vector.VectorEnvironment(
      SyncVectorEnv([lambda: Corridor([2, 4], [False, False])]), "C", seed=0
    )
    environment.reset()
    return [
      environment.step(np.array([action], np.int32))
      for action in (0, 0, ignored, 1, 1)
    ]

  steps = play(0)
  assert [bool(step.first[0]) for step in steps] == [0, 0, 1, 0, 0]
  for ignored in (1, 2):
    for step, other in zip(steps, play(ignored), strict=True):
      for array, same in zip(step, other, strict=True):
        np.testing.assert_array_equal(array, same)


def balance(observation):
  x, x_dot, theta, theta_dot = observation.T
  push = theta + 0.5 * theta_dot + 0.02 * x + 0.05 * x_dot
  return (push > 0).astype(np.int32)


def push_right(observation):
  return np.ones(len(observation), np.int32)


@pytest.mark.parametrize(
  ("act", "terminates"), [(balance, False), (push_right, True)]
)
def test_cartpole_terminates_at_a_fall_and_truncates_at_its_time_limit(
  act, terminates
):
  environment = factory.make(given.config_of("CartPole-v1"), 4, seed=1)
  observation = environment.reset().observation
  ages = np.zeros(4, int)
  ends = firsts = 0
  for _ in range(1100):
    has_ended = ages < 0
    step = environment.step(act(observation))
    np.testing.assert_array_equal(step.first, has_ended)
    np.testing.assert_array_equal(step.reward, np.where(has_ended, 0, 1))
    ages = np.where(has_ended, 0, ages + 1)
    # The last observation of an episode is out of bounds if and only if it
    # terminated. The first observation is within 0.05 of upright.
    fallen = (abs(step.observation[:, 2]) > 12 * np.pi / 180) | (
      abs(step.observation[:, 0]) > 2.4
    )
    np.testing.assert_array_equal(step.terminated, fallen)
    np.testing.assert_array_equal(step.truncated, ages == 500)
    assert (abs(step.observation[step.first]) <= 0.05).all()
    ended = step.terminated if terminates else step.truncated
    ends, firsts = ends + ended.sum(), firsts + step.first.sum()
    ages[step.terminated | step.truncated] = -1
    observation = step.observation
  assert ends >= 8
  assert firsts >= 8


ATARI = {
  "repeat_action_probability": 0.0,
  "noop_max": 0,
  "use_fire_reset": False,
}


def test_atari_equals_gymnasiums_wrappers_stepped_by_hand():
  import ale_py

  gymnasium.register_envs(ale_py)
  environment = factory.make(
    given.config_of("ALE/Pong-v5", {"time_limit": 12}, **ATARI), 2, seed=0
  )
  references = [
    SteppedByHand(
      FrameStackObservation(
        AtariPreprocessing(
          gymnasium.make(
            "ALE/Pong-v5",
            frameskip=1,
            repeat_action_probability=0.0,
            max_num_frames_per_episode=48,
          ),
          noop_max=0,
        ),
        4,
        padding_type="zero",
      )
    )
    for _ in range(2)
  ]
  observation = environment.reset().observation
  assert observation.shape == (2, 4, 84, 84)
  np.testing.assert_array_equal(
    observation, [reference.opening for reference in references]
  )
  rng = np.random.default_rng(0)
  firsts = []
  for _ in range(30):
    actions = rng.integers(0, 6, 2).astype(np.int32)
    step = environment.step(actions)
    for index, reference in enumerate(references):
      assert_step(step, index, reference.step(int(actions[index])))
    firsts.append(bool(step.first.all()))
  assert [at for at, first in enumerate(firsts) if first] == [12, 25]


def test_a_lost_atari_game_terminates():
  environment = factory.make(
    given.config_of("ALE/Pong-v5", repeat_action_probability=0.0), 1, seed=0
  )
  environment.reset()
  total = 0.0
  for _ in range(1200):
    step = environment.step(np.zeros(1, np.int32))
    total += step.reward[0]
    if step.terminated[0] or step.truncated[0]:
      break
  assert (step.terminated[0], step.truncated[0], total) == (True, False, -21)
  following = environment.step(np.zeros(1, np.int32))
  assert following.first[0]
  assert following.reward[0] == 0
  assert not environment.step(np.zeros(1, np.int32)).first[0]


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_only_next_step_autoreset_is_supported(mode):
  envs = SyncVectorEnv([lambda: Corridor([1], [False])], autoreset_mode=mode)
  if mode is AutoresetMode.NEXT_STEP:
    assert vector.VectorEnvironment(envs, "Corridor", seed=0).num_envs == 1
    return
  with pytest.raises(ValueError, match=f"'Corridor'.*{mode.name}.*NEXT_STEP"):
    vector.VectorEnvironment(envs, "Corridor", seed=0)


def test_an_undeclared_autoreset_mode_is_rejected():
  class Undeclared(gymnasium.vector.VectorEnv):
    num_envs = 1
    single_observation_space = single_action_space = spaces.Discrete(2)

  # ale_py writes its own mode to the metadata of the base class, which classes
  # without metadata inherit.
  factory.make(given.config_of("ALE/Pong-v5"), 1, seed=0).close()
  assert "autoreset_mode" in Undeclared.metadata
  with pytest.raises(ValueError, match=r"'Undeclared'.*mode None"):
    vector.VectorEnvironment(Undeclared(), "Undeclared", seed=0)
