"""Munchausen DQN. Vieillard et al. 2020, "Munchausen reinforcement
learning".
"""

import ml_collections

from slipway.configs import dqn

PRESETS = dqn.PRESETS


def get_config(preset: str = "cartpole") -> ml_collections.ConfigDict:
  """Returns the config of Munchausen DQN: rewards plus a scaled log-policy."""
  c = dqn.get_config(preset)
  c.learner.munchausen_scale = 0.9  # alpha; section 4
  return c
