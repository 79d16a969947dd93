"""IQN. Dabney et al. 2018, "Implicit quantile networks for distributional
reinforcement learning".
"""

import ml_collections

from slipway.configs import dqn

# The presets of DQN; `get_config` changes their values to those of IQN.
PRESETS = dqn.PRESETS


def get_config(preset: str = "cartpole") -> ml_collections.ConfigDict:
  """Returns the config of IQN, which learns the returns' quantile function."""
  c = dqn.get_config(preset)
  c.network.head = "implicit_quantile"
  c.network.quantiles = 8  # N and N'; section 3.1 and figure 2
  c.learner.huber_delta = 1.0  # kappa; section 3
  return c
