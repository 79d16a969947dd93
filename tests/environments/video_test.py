"""Tests of videos: an mp4 with one frame per step of the played episode."""

import typing

import cv2
import gymnasium
import imageio
import numpy as np
import pytest
from gymnasium import spaces

from slipway.environments import factory, minatar, video
from tests.environments import given


def zeros(step):
  return np.zeros(len(step.first), np.int32)


@pytest.mark.parametrize(
  ("config", "max_steps", "steps", "size", "frames_per_second"),
  [
    (given.config_of("CartPole-v1"), 4, 4, (600, 400), 50),
    (given.config_of("CartPole-v1", {"time_limit": 3}), 9, 3, (600, 400), 50),
    # Steps of 4 frames, of which one is rendered.
    (given.config_of("CartPole-v1", {"frame_skip": 4}), 2, 2, (600, 400), 12.5),
    (given.config_of("FrozenLake-v1"), 2, 2, (256, 256), 4),
    (
      given.config_of(f"{minatar.__name__}:MinAtar/Asterix-v1"),
      2,
      2,
      (160, 160),
      15,
    ),
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
  assert video.record(config, zeros, path, 0, max_steps=50) == (-1, True)
  config = given.config_of("CartPole-v1", {"time_limit": 7})
  assert video.record(config, zeros, path, 0, max_steps=50) == (7, True)
  assert video.record(config, zeros, path, 0, max_steps=5) == (5, False)


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


class Bare(Blind):
  """Environment whose constructor has no argument `render_mode`."""

  def __init__(self):
    super().__init__()


class Strict(Blind):
  """Environment whose constructor rejects its render mode."""

  def __init__(self, render_mode=None):
    assert render_mode in (None, "human")
    super().__init__()


class Drawn(Blind):
  """Environment with episodes of 3 steps, which renders an array.

  Array t of `frames` is the frame after t steps.
  """

  metadata: typing.ClassVar = {"render_modes": ["rgb_array"]}
  frames: typing.ClassVar = [None]

  def reset(self, *, seed=None, options=None):
    self._steps = 0
    return 0, {}

  def step(self, action):
    self._steps += 1
    return 0, 0.0, self._steps == 3, False, {}

  def render(self):
    return self.frames[min(self._steps, len(self.frames) - 1)]


class Reusing(Drawn):
  """Environment that draws all frames in one array, each in another grey."""

  metadata: typing.ClassVar = {
    "render_modes": ["rgb_array"],
    "render_fps": None,
  }

  def render(self):
    self._canvas = getattr(self, "_canvas", np.zeros((32, 32, 3), np.uint8))
    self._canvas[:] = 60 * self._steps
    return self._canvas


class Undrawn(gymnasium.vector.SyncVectorEnv):
  """Vector environment that renders nothing."""

  def __init__(self, num_envs, render_mode=None):
    super().__init__([Drawn] * num_envs)

  def render(self):
    return None


IMAGE = np.zeros((32, 48, 3), np.uint8)


@pytest.fixture(autouse=True)
def registered():
  """Registers this module's environments, such as 'Blind-v0'."""
  classes = (Blind, Unrendered, Bare, Strict, Drawn, Reusing)
  for one in classes:
    gymnasium.register(f"{one.__name__}-v0", entry_point=one)
  gymnasium.register("Undrawn-v0", vector_entry_point=Undrawn)
  yield
  for one in (*classes, Undrawn):
    del gymnasium.registry[f"{one.__name__}-v0"]


@pytest.mark.parametrize(
  ("name", "fields"),
  [
    (
      "Unrendered-v0",
      ["config.environment.name is 'Unrendered-v0'", "no libEGL", "libegl1"],
    ),
    *(
      (
        name,
        [f"config.environment.name is {name!r}, which has no 'rgb_array'"],
      )
      for name in ("Blind-v0", "Bare-v0", "Strict-v0", f"{__name__}:Bare")
    ),
  ],
)
@pytest.mark.filterwarnings("ignore::UserWarning:gymnasium")
def test_errors_are_one_line(tmp_path, name, fields):
  with given.one_line(ValueError) as caught:
    video.record(given.config_of(name), zeros, tmp_path / "a.mp4", 0, 5)
  for field in fields:
    assert field in str(caught.value)
  assert not list(tmp_path.iterdir())


# Environment, what Drawn's render() returns after 0, 1, ... steps, and the text
# that describes the array that is no image.
FRAMES = [
  ("Drawn-v0", [None], "None"),
  ("Undrawn-v0", [IMAGE], "None"),
  ("Drawn-v0", [IMAGE[:, :, 0]], "uint8 [32, 48]"),
  ("Drawn-v0", ["an\nimage"], r"'an\nimage'"),
  ("Drawn-v0", [IMAGE, IMAGE, None], "None"),
]


@pytest.mark.parametrize(("name", "frames", "shown"), FRAMES)
def test_a_frame_that_is_no_image_is_an_error(
  tmp_path, monkeypatch, name, frames, shown
):
  monkeypatch.setattr(Drawn, "frames", frames)
  config = given.config_of(name)
  with given.one_line(ValueError) as caught:
    video.record(config, zeros, tmp_path / "a.mp4", 0, 5)
  assert str(caught.value).startswith(
    f"config.environment.name is {name!r}, whose render() returned {shown}, "
  )


@pytest.mark.parametrize(
  "frame", [IMAGE.astype(float), np.zeros((32, 48, 4), np.uint8)]
)
def test_frames_of_another_type_or_with_opacity(tmp_path, monkeypatch, frame):
  monkeypatch.setattr(Drawn, "frames", [frame])
  path = tmp_path / "a.mp4"
  video.record(given.config_of("Drawn-v0"), zeros, path, 0, 5)
  with imageio.get_reader(path) as reader:
    assert reader.get_meta_data()["size"] == (48, 32)


def test_frames_in_a_reused_array_at_no_declared_rate(tmp_path):
  path = tmp_path / "a.mp4"
  video.record(given.config_of("Reusing-v0"), zeros, path, 0, 5)
  with imageio.get_reader(path) as reader:
    assert reader.get_meta_data()["fps"] == 30
    greys = [reader.get_data(at).mean() for at in range(4)]
  # Compression changes the grey a little.
  np.testing.assert_allclose(greys, [0, 60, 120, 180], atol=5)
