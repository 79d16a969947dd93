"""Double DQN. van Hasselt et al. 2016, "Deep reinforcement learning with
double Q-learning", equation 4.
"""

import ml_collections

from slipway.configs import dqn

PRESETS = dqn.PRESETS


def get_config(preset: str = "cartpole") -> ml_collections.ConfigDict:
  """Returns the config of double DQN.

  The online network chooses the actions whose values the target network gives.
  """
  c = dqn.get_config(preset)
  c.learner.double = True
  return c
