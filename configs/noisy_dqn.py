"""NoisyNet-DQN. Fortunato et al. 2018, "Noisy networks for exploration"."""

import ml_collections

from slipway.configs import dqn

PRESETS = dqn.PRESETS


def get_config(preset: str = "cartpole") -> ml_collections.ConfigDict:
  """Returns the config of NoisyNet-DQN, which explores by noise in weights."""
  c = dqn.get_config(preset)
  c.network.noisy = True
  c.exploration.epsilon_start = 0.0  # section 3.1: "no longer used"
  c.exploration.epsilon_end = 0.0
  return c
