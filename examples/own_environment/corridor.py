"""A custom environment: walk to the right end of a corridor."""

import gymnasium
import numpy as np

_LENGTH = 10  # places


class Corridor(gymnasium.Env):
  """Action 1 steps right and 0 left; the last place ends it with reward 1."""

  observation_space = gymnasium.spaces.Box(0, 1, (_LENGTH,), np.float32)
  action_space = gymnasium.spaces.Discrete(2)

  def reset(self, *, seed=None, options=None):
    super().reset(seed=seed)
    self.place = self.steps = 0
    return self._observe(), {}

  def step(self, action):
    self.place = max(0, self.place + (1 if action == 1 else -1))
    self.steps += 1
    arrived, late = self.place == _LENGTH - 1, self.steps == 100
    return self._observe(), float(arrived), arrived, late and not arrived, {}

  def _observe(self):
    return np.eye(_LENGTH, dtype=np.float32)[self.place]
