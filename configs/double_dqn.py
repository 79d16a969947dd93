"""Double DQN. van Hasselt et al. 2016, "Deep reinforcement learning with
double Q-learning", equation 4.
"""

import ml_collections

from slipway.configs import dqn

# The presets of DQN; `get_config` changes their values to those of double DQN.
PRESETS = dqn.PRESETS


def get_config(preset: str = "cartpole") -> ml_collections.ConfigDict:
  """Returns the config of double DQN.

  The online network selects the action of the bootstrap, and the target network
  evaluates that action.
  """
  c = dqn.get_config(preset)
  c.learner.double = True
  return c
