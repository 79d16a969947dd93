"""RunningReturns: the scale of rewards, as an environment's steps show it."""

import numpy as np

# The field of an item that holds them, if its schema has it: float32.
FIELD = "running_return"


class RunningReturns:
  """The discounted sums of the rewards of B running episodes.

    G_t = gamma G_{t-1} + R_t,  G = 0 before an episode

  Engstrom et al. 2020, "Implementation matters in deep policy gradients"
  (https://arxiv.org/abs/2005.12729), appendix A.2, algorithm 1.

  Attributes:
    values: G of each environment, float32 [B].
  """

  def __init__(self, num_envs: int, discount: float):
    """Starts before the first steps.

    Args:
      num_envs: B.
      discount: gamma, per environment step.
    """
    self._discount = np.float32(discount)
    self.values = np.zeros(num_envs, np.float32)

  def add(self, reward: np.ndarray, first: np.ndarray) -> np.ndarray:
    """Returns `values` after a step.

    Args:
      reward: [B] float32 of the step.
      first: [B] bool, the step was an autoreset, which begins an episode.
    """
    values = self._discount * self.values + reward
    values[first] = 0.0
    self.values = values
    return values
