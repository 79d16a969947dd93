"""Video: plays episodes of a policy, and shows or records their frames."""

import os
import pathlib
import tempfile
import warnings
from collections.abc import Callable
from typing import Any

import ml_collections
import numpy as np

from slipway.environments import factory, ids, temporary, user_code, vector

# Frames per second that the Atari console draws.
_ATARI_FRAMES_PER_SECOND = 60

# Arguments of `ale_py.AtariVectorEnv` for observations that are whole frames in
# colour, of which a video is made.
_ATARI_SCREEN = {
  "grayscale": False,
  "img_height": 210,
  "img_width": 160,
  "stack_num": 1,
}
# Policy: a function from a step of one environment to an action [1, ...].
Act = Callable[[vector.StepBatch], np.ndarray]


class Player:
  """Plays episodes of one environment, and passes on their frames.

  `ale_py.AtariVectorEnv` can't render, so two copies of an Atari game run with
  the same seed and actions: one for the policy, and one in full colour.

  Attributes:
    name: gymnasium id of the environment.
    frames_per_second: rate at which the frames should be shown.
  """

  def __init__(self, config: ml_collections.ConfigDict, seed: int):
    """Makes the environment.

    Args:
      config: section `environment` of a config.
      seed: seed of the first episode, at least 0; the others follow from it.

    Raises:
      ValueError: the environment has no `rgb_array` frames, or can't be made.
      user_code.UserCodeError: the environment's own code failed.
    """
    # pygame would print a message when a renderer imports it.
    os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
    os.environ.setdefault("SDL_AUDIODRIVER", "dummy")
    os.environ.setdefault("MUJOCO_GL", "egl")  # needs no display
    name, kwargs = ids.get_name_and_kwargs(config)
    self._coloured = None
    if ids.is_atari(ids.find_spec(name)):
      self._environment = factory.make(config, 1, seed)
      screen = _with_kwargs(config, _ATARI_SCREEN)
      self._coloured = factory.make(screen, 1, seed)
      rate = _ATARI_FRAMES_PER_SECOND / kwargs.get("frameskip", 4)
    else:
      self._environment = _make_renderer(config, seed)
      rate = self._environment.frames_per_second / config.get("frame_skip", 1)
    self.name, self.frames_per_second = self._environment.name, rate

  def play(
    self, act: Act, show: Callable[[np.ndarray], bool | None], max_steps: int
  ) -> tuple[float, bool]:
    """Plays an episode.

    Args:
      show: function that is called with each frame, uint8 [H, W, 3]; False ends
        the episode.
      max_steps: steps after which a longer episode is cut, at least 1.

    Returns:
      The sum of the episode's rewards, and whether it has ended by itself.

    Raises:
      ValueError: this machine can't render, or a frame is no image.
      user_code.UserCodeError: the environment failed.
    """
    step, episode_return = self._environment.reset(), 0.0
    has_ended = False
    screen = self._coloured.reset() if self._coloured else None
    for _ in range(max_steps):
      if show(self._read_frame(screen)) is False:
        return episode_return, False
      actions = act(step)
      step = self._environment.step(actions)
      episode_return += float(step.raw_reward[0])
      screen = self._coloured.step(actions) if self._coloured else None
      if has_ended := bool(step.terminated[0] or step.truncated[0]):
        break
    show(self._read_frame(screen))
    return episode_return, has_ended

  def close(self) -> None:
    """Closes the environments."""
    self._environment.close()
    if self._coloured is not None:
      self._coloured.close()

  def _read_frame(self, screen: vector.StepBatch | None) -> np.ndarray:
    """Returns the frame of a step, uint8 [H, W, 3]."""
    return (
      _render(self._environment)
      if screen is None
      else (screen.observation[0, 0])
    )


def check(config: ml_collections.ConfigDict) -> None:
  """Checks that an environment can be filmed here, by a step of an episode.

  Raises:
    Exception: as `record`.
  """
  environment = factory.make(config, 1, seed=0)
  environment.close()
  random = np.random.default_rng(0)

  def act(step: vector.StepBatch) -> np.ndarray:
    return environment.sample_actions(step.observation, random)

  with tempfile.TemporaryDirectory() as folder:
    record(config, act, pathlib.Path(folder, "check.mp4"), seed=0, max_steps=1)


def record(
  config: ml_collections.ConfigDict,
  act: Act,
  path: str | os.PathLike[str],
  seed: int,
  max_steps: int,
) -> tuple[float, bool]:
  """Plays one episode, and writes its frames to a video file.

  Args:
    config: section `environment` of a config.
    path: path of the video, ending in `.mp4`; missing folders are created, and
      an existing file is replaced.
    seed: seed of the episode, at least 0.
    max_steps: steps after which a longer episode is cut, at least 1.

  Returns:
    As `Player.play`.

  Raises:
    ValueError: as `Player`, or the folder of `path` can't be written.
    RuntimeError: this machine has no ffmpeg.
    OSError: ffmpeg can't be started, or has failed.
    user_code.UserCodeError: the environment failed.
  """
  from moviepy.video.io import ffmpeg_writer  # takes long

  path = pathlib.Path(path)
  remedy = "make the folder writable, or go without videos"
  _hide_windows()
  with temporary.make_folder_next_to(path, "path", remedy) as folder:
    player = Player(config, seed)
    file, writer = os.path.join(folder, path.name), None

    def write(frame: np.ndarray) -> None:
      nonlocal writer
      if writer is None:
        height, width, _ = frame.shape
        writer = ffmpeg_writer.FFMPEG_VideoWriter(
          file, (width, height), player.frames_per_second, preset="veryfast"
        )
      writer.write_frame(frame)

    try:
      played = player.play(act, write, max_steps)
    finally:
      if writer is not None:
        writer.close()
      player.close()
    os.replace(file, path)
  return played


def to_gif(path: str | os.PathLike[str]) -> bytes:
  """Returns the first 10 s of a video, in a smaller size, as a GIF file."""
  import moviepy

  with (
    tempfile.TemporaryDirectory() as folder,
    moviepy.VideoFileClip(os.fspath(path)) as clip,
  ):
    file = pathlib.Path(folder, "video.gif")
    part = clip.subclipped(0, min(clip.duration, 10.0)).resized(width=160)
    # With a single frame, imageio would write no file.
    fps = 8 if clip.duration > 1 else clip.fps
    part.write_gif(str(file), fps=fps, logger=None)
    return file.read_bytes()


def _hide_windows() -> None:
  """Makes renderers need no screen; they must not have been imported yet."""
  os.environ.setdefault("SDL_VIDEODRIVER", "dummy")


def _make_renderer(
  config: ml_collections.ConfigDict, seed: int
) -> vector.VectorEnvironment:
  """Makes an environment that renders frames."""
  reason = ""
  try:
    with warnings.catch_warnings():
      # gymnasium warns of a mode that the error below is about.
      warnings.filterwarnings("ignore", ".*render_mode")
      environment = factory.make(
        _with_kwargs(config, {"render_mode": "rgb_array"}), 1, seed
      )
    if environment.renders:
      return environment
  except (ValueError, user_code.UserCodeError) as error:
    # The constructor may have no argument `render_mode`, or reject its value.
    # If it fails without the argument, too, only the second error is raised,
    # since the config does not set the argument.
    reason = f" ({user_code.describe(error.__cause__ or error)})"
    environment = factory.make(config, 1, seed)
  environment.close()
  raise ValueError(
    f"config.environment.name is {environment.name!r}, which has no "
    f"'rgb_array' frames{reason}, so there is nothing to show: go without "
    "videos, or give its class the render mode 'rgb_array'"
  )


def _render(environment: vector.VectorEnvironment) -> np.ndarray:
  """Returns the frame that an environment renders, uint8 [H, W, 3]."""
  try:
    frame = environment.render()
  except Exception as error:
    raise ValueError(
      f"config.environment.name is {environment.name!r}, whose frames can't be "
      f"rendered here ({user_code.describe(error)}), so there is no video: "
      "go without videos, or install what its renderer needs (MuJoCo's: EGL, "
      "on Debian the package libegl1)"
    ) from error
  is_image = frame.ndim == 3 and frame.shape[2] in (3, 4)
  if not is_image or frame.dtype.kind not in "uif":
    shown = f"{frame.dtype} {list(frame.shape)}"
    if not frame.ndim:  # None, or another object that is no array
      shown = " ".join(user_code.format_object(frame.item()).split())
    raise ValueError(
      f"config.environment.name is {environment.name!r}, whose render() "
      f"returned {shown:.80}, not uint8 [H, W, 3], so there is no video: "
      "correct render(), or go without videos"
    )
  return frame[:, :, :3].astype(np.uint8, copy=False)


def _with_kwargs(
  config: ml_collections.ConfigDict, kwargs: dict[str, Any]
) -> ml_collections.ConfigDict:
  """Returns a copy of a config with some constructor arguments changed."""
  changed = config.copy_and_resolve_references()
  with changed.unlocked():
    changed.kwargs.update(kwargs)
  return changed
