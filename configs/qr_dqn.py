"""QR-DQN. Dabney et al. 2018, "Distributional reinforcement learning with
quantile regression".
"""

import ml_collections

from slipway.configs import dqn

# The presets of DQN; `get_config` changes their values to those of QR-DQN.
PRESETS = dqn.PRESETS


def get_config(preset: str = "cartpole") -> ml_collections.ConfigDict:
  """Returns the config of QR-DQN, which learns quantiles of returns."""
  c = dqn.get_config(preset)
  c.network.head = "quantile"
  c.network.quantiles = 200 if preset in dqn.ATARI else 32  # section 5: 200
  c.learner.huber_delta = 1.0  # kappa; section 5
  return c
