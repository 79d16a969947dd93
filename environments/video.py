"""Video: records one episode of a policy as an mp4 file."""

import os
import pathlib
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


def record(
  config_environment: ml_collections.ConfigDict,
  act: Callable[[vector.StepBatch], np.ndarray],
  path: str | os.PathLike[str],
  seed: int,
  max_steps: int,
) -> float:
  """Plays one episode, and writes its frames to a video file.

  `ale_py.AtariVectorEnv` can't render, so two copies of an Atari game run with
  the same seed and actions: one for the policy, and one in full colour.

  Args:
    act: Policy: a function from a step of one environment to an action
      [1, ...].
    path: Path of the video, ending in `.mp4`; missing folders are created, and
      an existing file is replaced.
    seed: Seed of the episode, at least 0.
    max_steps: Steps after which a longer episode is cut, at least 1.

  Raises:
    ValueError: The environment has no `rgb_array` frames, or this machine can't
      render them, or the folder of `path` can't be written.
  """
  path = pathlib.Path(path)
  remedy = "make the folder writable, or evaluate without video"
  with temporary.make_folder_next_to(path, "path", remedy) as folder:
    return _record(config_environment, act, path, folder, seed, max_steps)


def _record(
  config_environment: ml_collections.ConfigDict,
  act: Callable[[vector.StepBatch], np.ndarray],
  path: pathlib.Path,
  folder: str,
  seed: int,
  max_steps: int,
) -> float:
  """Records a video in a folder, and moves it to `path` once complete."""
  # pygame would print a message when a renderer imports it.
  os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
  # Frames are written to a file, so no screen or sound card is needed.
  os.environ.setdefault("SDL_AUDIODRIVER", "dummy")
  os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
  os.environ.setdefault("MUJOCO_GL", "egl")  # needs no display
  name, kwargs = ids.get_name_and_kwargs(config_environment)
  coloured = None
  if ids.is_atari(ids.find_spec(name)):
    environment = factory.make(config_environment, 1, seed)
    coloured = factory.make(
      _with_kwargs(config_environment, _ATARI_SCREEN), 1, seed
    )
    frames_per_second = _ATARI_FRAMES_PER_SECOND / kwargs.get("frameskip", 4)
  else:
    environment = _make_renderer(config_environment, path, seed)
    frames_per_second = environment.frames_per_second / config_environment.get(
      "frame_skip", 1
    )
  try:
    frames, episode_return = _play_episode(
      environment, coloured, act, max_steps
    )
  finally:
    environment.close()
    if coloured is not None:
      coloured.close()
  from gymnasium.utils import save_video  # loads moviepy, which takes long

  save_video.save_video(
    frames,
    folder,
    episode_trigger=lambda _: True,
    name_prefix="video",
    fps=frames_per_second,
  )
  os.replace(next(pathlib.Path(folder).glob("*.mp4")), path)
  return episode_return


def _make_renderer(
  config: ml_collections.ConfigDict, path: pathlib.Path, seed: int
) -> vector.VectorEnvironment:
  reason = ""
  try:
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
    f"'rgb_array' frames{reason}, so {path} cannot be written: evaluate "
    "without video"
  )


def _play_episode(
  environment: vector.VectorEnvironment,
  coloured: vector.VectorEnvironment | None,
  act: Callable[[vector.StepBatch], np.ndarray],
  max_steps: int,
) -> tuple[list[np.ndarray], float]:
  episode_return = 0.0
  step = environment.reset()
  frames = [
    _render_first(environment)
    if coloured is None
    else coloured.reset().observation[0, 0]
  ]
  for _ in range(max_steps):
    actions = act(step)
    step = environment.step(actions)
    episode_return += float(step.raw_reward[0])
    frames.append(
      _check_frame(environment, environment.render())
      if coloured is None
      else coloured.step(actions).observation[0, 0]
    )
    if step.terminated[0] or step.truncated[0]:
      break
  return frames, episode_return


def _render_first(environment: vector.VectorEnvironment) -> np.ndarray:
  """Renders the first frame of an episode, uint8 [H, W, 3]."""
  try:
    frame = environment.render()
  except Exception as error:
    raise ValueError(
      f"config.environment.name is {environment.name!r}, whose frames can't be "
      f"rendered here ({user_code.describe(error)}), so there is no video: "
      "evaluate without video, or install what its renderer needs (MuJoCo's: "
      "EGL, on Debian the package libegl1)"
    ) from error
  return _check_frame(environment, frame)


def _check_frame(
  environment: vector.VectorEnvironment, frame: np.ndarray
) -> np.ndarray:
  """Returns a rendered frame as uint8 [H, W, 3]."""
  is_image = frame.ndim == 3 and frame.shape[2] in (3, 4)
  if not is_image or frame.dtype.kind not in "uif":
    shown = f"{frame.dtype} {list(frame.shape)}"
    if not frame.ndim:  # None, or another object that is no array
      shown = " ".join(user_code.format_object(frame.item()).split())
    raise ValueError(
      f"config.environment.name is {environment.name!r}, whose render() "
      f"returned {shown:.80}, not uint8 [H, W, 3], so there is no video: "
      "correct render(), or evaluate without video"
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
