"""Prioritized DQN. Schaul et al. 2016, "Prioritized experience replay".

The paper's best agent is built on double DQN, and Reverb's prioritized selector
implements the paper's proportional variant. The paper divides the learning rate
by four, since larger errors are sampled; Adam's steps do not grow with them.
"""

import ml_collections

from slipway.configs import dqn

PRESETS = dqn.PRESETS


def get_config(preset: str = "cartpole") -> ml_collections.ConfigDict:
  """Returns the config of prioritized DQN: double, with a prioritized table."""
  c = dqn.get_config(preset)
  c.learner.double = True  # section 4: "we use double DQN"
  c.replay.sampler = "prioritized"
  return c
