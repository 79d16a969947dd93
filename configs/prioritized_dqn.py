"""Prioritized DQN. Schaul et al. 2016, "Prioritized experience replay".

The paper's best agent is built on double DQN; its proportional variant is
what Reverb's prioritized selector implements. The paper divides the learning
rate by four, as larger errors are sampled: Adam's steps do not grow with them.
"""

import ml_collections

from slipway.configs import dqn

PRESETS = dqn.PRESETS


def get_config(preset: str = "cartpole") -> ml_collections.ConfigDict:
  """DQN with double Q-learning and a prioritized table."""
  c = dqn.get_config(preset)
  c.learner.double = True  # section 4: "we use double DQN"
  c.replay.sampler = "prioritized"
  return c
