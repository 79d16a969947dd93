"""Munchausen DQN. Vieillard et al. 2020, "Munchausen reinforcement
learning".
"""

import ml_collections

from slipway.configs import dqn

# The presets of DQN; `get_config` adds the Munchausen bonus.
PRESETS = dqn.PRESETS


def get_config(preset: str = "cartpole") -> ml_collections.ConfigDict:
  """Returns the config of Munchausen DQN.

  The action's scaled log-probability is added to the reward.
  """
  c = dqn.get_config(preset)
  c.learner.munchausen_scale = 0.9  # alpha; section 4
  return c
