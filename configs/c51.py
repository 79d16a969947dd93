"""C51. Bellemare et al. 2017, "A distributional perspective on reinforcement
learning".
"""

import ml_collections

from slipway.configs import dqn

# The presets of DQN; `get_config` changes their values to those of C51.
PRESETS = dqn.PRESETS


def get_config(preset: str = "cartpole") -> ml_collections.ConfigDict:
  """Returns the config of C51, which learns returns' probabilities on atoms."""
  c = dqn.get_config(preset)
  c.network.head = "categorical"
  if preset in dqn.ATARI:
    c.learner.learning_rate = 2.5e-4  # section 5
    c.learner.adam_epsilon = 0.01 / 32  # the same
  if preset == "minatar_breakout":
    c.learner.target_update_period = 250  # 1,000 steps, as Young and Tian's
    c.learner.adam_epsilon = 0.01 / 32  # section 5
  return c
