"""Tests of videos: an mp4 with one frame per step of the played episode."""

import typing

import cv2
import gymnasium
import imageio
import numpy as np
import pytest
from gymnasium import spaces

from slipway.environments import factory, video
from tests.environments import given


def zeros(step):
  return np.zeros(len(step.first), np.int32)


@pytest.mark.parametrize(
  ("config", "max_steps", "steps", "size", "frames_per_second"),
  [
    (given.config_of("CartPole-v1"), 4, 4, (600, 400), 50),
    (given.config_of("CartPole-v1", {"time_limit": 3}), 9, 3, (600, 400), 50),
    (given.config_of("FrozenLake-v1"), 2, 2, (256, 256), 4),
    (
      given.config_of("ALE/Pong-v5", {"time_limit": 10}),
      99,
      10,
      (160, 210),
      15,
    ),
  ],
)
def test_a_video_of_an_episode(
  tmp_path, capfd, config, max_steps, steps, size, frames_per_second
):
  path = tmp_path / "new" / "episode.mp4"
  seen = []

  def act(step):
    seen.append(step)
    return zeros(step)

  video.record(config, act, path, seed=5, max_steps=max_steps)
  assert capfd.readouterr().out == ""
  assert [entry.name for entry in path.parent.iterdir()] == ["episode.mp4"]
  with imageio.get_reader(path) as reader:
    metadata = reader.get_meta_data()
    assert reader.count_frames() == steps + 1
  assert metadata["size"] == size
  assert metadata["fps"] == frames_per_second
  # The policy got the same observations as in training, with the same seed.
  environment = factory.make(config, 1, seed=5)
  step = environment.reset()
  assert len(seen) == steps
  for shown in seen:
    for array, expected in zip(shown, step, strict=True):
      np.testing.assert_array_equal(array, expected)
    step = environment.step(zeros(step))


def test_an_atari_video_shows_the_game_of_the_policy(tmp_path):
  # Two emulators run in parallel, with sticky actions. If they diverged, the
  # colour frames would not show the policy's observations.
  path = tmp_path / "pong.mp4"
  rng = np.random.default_rng(0)
  seen = []

  def act(step):
    seen.append(step.observation[0, -1])
    return rng.integers(0, 6, 1).astype(np.int32)

  video.record(given.config_of("ALE/Pong-v5"), act, path, seed=0, max_steps=100)
  seen = np.stack(seen).astype(int)  # [T, 84, 84]
  with imageio.get_reader(path) as reader:
    frames = [reader.get_data(at) for at in range(len(seen))]
  nearest = [
    np.abs(cv2.resize(grey, (84, 84), interpolation=cv2.INTER_AREA) - seen)
    .mean((1, 2))
    .argmin()
    for grey in (cv2.cvtColor(frame, cv2.COLOR_RGB2GRAY) for frame in frames)
  ]
  # The paddles do not move in a few frames, which look equal after compression.
  assert np.mean(nearest == np.arange(len(seen))) > 0.9


def test_the_return_is_the_sum_of_the_episodes_rewards(tmp_path):
  config = given.config_of("CartPole-v1", sutton_barto_reward=True)
  path = tmp_path / "fall.mp4"
  assert video.record(config, zeros, path, seed=0, max_steps=50) == -1
  config = given.config_of("CartPole-v1", {"time_limit": 7})
  assert video.record(config, zeros, path, seed=0, max_steps=50) == 7


class Blind(gymnasium.Env):
  """Environment without rendering."""

  observation_space = spaces.Discrete(2)
  action_space = spaces.Discrete(2)

  def __init__(self, render_mode=None):
    self.render_mode = render_mode

  def reset(self, *, seed=None, options=None):
    return 0, {}

  def step(self, action):
    return 0, 0.0, True, False, {}

  def render(self):
    return None


class Unrendered(Blind):
  """Environment whose rendering fails on this machine."""

  metadata: typing.ClassVar = {"render_modes": ["rgb_array"]}

  def render(self):
    raise ImportError("no libEGL\nat all")


@pytest.mark.parametrize(
  ("name", "file", "max_steps", "fields"),
  [
    ("CartPole-v1", "a.gif", 5, ["path is", "a.gif", ".mp4"]),
    ("CartPole-v1", "a.mp4", 0, ["max_steps is 0"]),
    ("Blind-v0", "a.mp4", 5, ["config.environment.name is 'Blind-v0'", "rgb"]),
    (
      "Unrendered-v0",
      "a.mp4",
      5,
      ["config.environment.name is 'Unrendered-v0'", "no libEGL", "libegl1"],
    ),
  ],
)
@pytest.mark.filterwarnings("ignore::UserWarning:gymnasium")
def test_errors_are_one_line(tmp_path, name, file, max_steps, fields):
  gymnasium.register("Blind-v0", entry_point=Blind)
  gymnasium.register("Unrendered-v0", entry_point=Unrendered)
  try:
    with pytest.raises(ValueError) as caught:
      video.record(given.config_of(name), zeros, tmp_path / file, 0, max_steps)
  finally:
    del gymnasium.registry["Blind-v0"]
    del gymnasium.registry["Unrendered-v0"]
  assert "\n" not in str(caught.value)
  for field in fields:
    assert field in str(caught.value)
  assert not list(tmp_path.iterdir())
