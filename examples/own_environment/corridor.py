"""A custom environment: a corridor, whose right end is the goal."""

import gymnasium
import numpy as np

_LENGTH = 10  # number of places of the corridor


class Corridor(gymnasium.Env):
  """Corridor in which action 1 moves right, and action 0 left.

  Reaching the last place ends the episode with reward 1. After 100 steps, the
  episode is truncated.
  """

  observation_space = gymnasium.spaces.Box(0, 1, (_LENGTH,), np.float32)
  action_space = gymnasium.spaces.Discrete(2)

  def reset(self, *, seed=None, options=None):
    """Moves to the first place; returns the observation and an empty dict."""
    super().reset(seed=seed)
    self.place = self.steps = 0
    return self._observe(), {}

  def step(self, action):
    """Moves by one place; returns the results of `gymnasium.Env.step`."""
    self.place = max(0, self.place + (1 if action == 1 else -1))
    self.steps += 1
    arrived, late = self.place == _LENGTH - 1, self.steps == 100
    return self._observe(), float(arrived), arrived, late and not arrived, {}

  def _observe(self):
    """Returns the current place as a one-hot vector, float32 [10]."""
    return np.eye(_LENGTH, dtype=np.float32)[self.place]
