"""Environment with many spaces, 'tests.environments.shaped:Shaped-v0'."""

import typing

import gymnasium
import ml_collections
import numpy as np
from gymnasium import spaces

OBSERVATIONS = {
  "vector": spaces.Box(-1.0, 1.0, (3,), np.float32),
  "bytes": spaces.Box(0, 255, (5,), np.uint8),
  "parts": spaces.Dict(
    {
      "position": spaces.Box(-1.0, 1.0, (2, 2), np.float64),
      "goal": spaces.Discrete(3, start=-1),
      "pair": spaces.Tuple(
        (spaces.MultiBinary(2), spaces.MultiDiscrete([2, 3], start=[1, -1]))
      ),
    }
  ),
  "tuple": spaces.Tuple((spaces.Discrete(2), spaces.Box(0, 9, (2,), np.int64))),
  "multi_discrete": spaces.MultiDiscrete([[2, 3], [4, 5]]),
  "multi_binary": spaces.MultiBinary((2, 2)),
  "inner_image": spaces.Dict(
    {"camera": spaces.Box(0, 255, (40, 48), np.uint8)}
  ),
  "small_image_and_numbers": spaces.Dict(
    {
      "camera": spaces.Box(0, 255, (9, 7, 3), np.uint8),
      "goal": spaces.Discrete(3),
      "joints": spaces.Box(-1e3, 1e3, (2,), np.float32),
    }
  ),
  "images_and_numbers": spaces.Dict(
    {
      "camera": spaces.Box(0, 255, (3, 40, 48), np.uint8),
      "depth": spaces.Box(0, 255, (2, 1), np.uint8),
      "joints": spaces.Box(-1e3, 1e3, (2,), np.float32),
    }
  ),
  "hw": spaces.Box(0, 255, (40, 48), np.uint8),
  "hwc": spaces.Box(0, 255, (40, 48, 3), np.uint8),
  "chw": spaces.Box(0, 255, (3, 40, 48), np.uint8),
  "shwc": spaces.Box(0, 255, (2, 40, 48, 3), np.uint8),
  "schw": spaces.Box(0, 255, (2, 3, 40, 48), np.uint8),
}
ACTIONS = {
  "discrete": spaces.Discrete(4, start=2),
  "multi_discrete": spaces.MultiDiscrete([2, 4, 3], start=[0, -1, 5]),
  "multi_binary": spaces.MultiBinary((2, 2)),
}
SIZES = {
  "discrete": (4,),
  "multi_discrete": (2, 4, 3),
  "multi_binary": (2, 2, 2, 2),
}


class Shaped(gymnasium.Env):
  """Environment with random observations, whose rewards rise with the action.

  An action that is not in its space, or that the last mask forbids, raises an
  error. The last observation of an episode has no legal action.
  """

  metadata: typing.ClassVar = {"render_modes": ["rgb_array"], "render_fps": 30}

  def __init__(
    self,
    observation="vector",
    action="discrete",
    masked=False,
    length=5,
    render_mode=None,
  ):
    self.observation_space = OBSERVATIONS[observation]
    self.action_space = ACTIONS[action]
    self._sizes, self._masked, self._length = SIZES[action], masked, length
    self._steps, self._mask = 0, None
    self.render_mode = render_mode

  def reset(self, *, seed=None, options=None):
    super().reset(seed=seed)
    if seed is not None:
      self.observation_space.seed(seed)
    self._steps = 0
    return self.observation_space.sample(), self._make_info(False)

  def step(self, action):
    assert self.action_space.contains(self.action_space.dtype.type(action))
    start = getattr(self.action_space, "start", 0)
    index = np.reshape(np.asarray(action) - start, -1)
    if self._masked:
      place = np.cumsum(self._sizes) - self._sizes + index
      if not self._mask[place].all():
        raise ValueError(f"illegal action {action} by {self._mask}")
    self._steps += 1
    ended = self._steps == self._length
    info = self._make_info(ended)
    reward = float(np.mean(index / (np.array(self._sizes) - 1)))
    return self.observation_space.sample(), reward, ended, False, info

  def render(self):
    return np.zeros((16, 16, 3), np.uint8)

  def _make_info(self, ended):
    if not self._masked:
      return {}
    masks = [self.np_random.random(n) < 0.5 for n in self._sizes]
    for mask in masks:
      mask[self.np_random.integers(len(mask))] = True
    self._mask = np.concatenate(masks)
    return {"action_mask": np.zeros_like(self._mask) if ended else self._mask}


gymnasium.register("Shaped-v0", Shaped)


def config_of(**kwargs):
  """Returns an `environment` section of `Shaped` with keyword arguments."""
  return ml_collections.ConfigDict(
    {
      "name": f"{__name__}:Shaped-v0",
      "game": "",
      "kwargs": kwargs,
      "action_mask": kwargs.get("masked", False),
    }
  )
