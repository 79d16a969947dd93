"""Running returns: discounted sums of an episode's rewards so far."""

import numpy as np

# Name of the optional item field with the running return after a step, float32.
FIELD = "running_return"


class RunningReturns:
  """Discounted sums of the rewards so far in the episodes of B environments.

    G_t = gamma G_{t-1} + R_t,  G = 0 before an episode

  Learners divide rewards by the standard deviation of these sums.

  Engstrom et al. 2020, "Implementation matters in deep policy gradients"
  (https://arxiv.org/abs/2005.12729), appendix A.2, algorithm 1.

  Attributes:
    values: running return G of each environment, float32 [B].
  """

  def __init__(self, num_envs: int, discount: float):
    """Sets the running returns of all environments to 0."""
    self._discount = np.float32(discount)
    self.values = np.zeros(num_envs, np.float32)

  def add(self, reward: np.ndarray, first: np.ndarray) -> np.ndarray:
    """Adds the rewards of a step, and returns the new `values`, float32 [B].

    Args:
      reward: rewards of the step, float32 [B].
      first: [B] bool, whether the step was an autoreset, which begins an
        episode.
    """
    values = self._discount * self.values + reward
    values[first] = 0.0
    self.values = values
    return values
