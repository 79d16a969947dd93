"""Pong: the preprocessed environment for peers that have no wrappers for it."""
# pyright: reportMissingImports=false

import ale_py
import gymnasium
import numpy as np
import tasks

_FRAMES = 4


class _FramesLast(gymnasium.ObservationWrapper):
  """Moves the stack to the last axis: uint8 [84, 84, 4] from [4, 84, 84]."""

  def __init__(self, environment: gymnasium.Env):
    super().__init__(environment)
    self.observation_space = gymnasium.spaces.Box(
      0, 255, (84, 84, _FRAMES), np.uint8
    )

  def observation(self, observation):
    return np.ascontiguousarray(np.moveaxis(observation, 0, -1))


def make() -> gymnasium.Env:
  """Makes Pong with observations uint8 [84, 84, 4]: 4 stacked grey frames.

  Each action is repeated for 4 frames.
  """
  gymnasium.register_envs(ale_py)
  environment = gymnasium.make(
    tasks.TASKS["pong"].environment, frameskip=1, repeat_action_probability=0.0
  )
  environment = gymnasium.wrappers.AtariPreprocessing(environment, noop_max=30)
  return _FramesLast(
    gymnasium.wrappers.FrameStackObservation(environment, _FRAMES)
  )
