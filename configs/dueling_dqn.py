"""Dueling DQN. Wang et al. 2016, "Dueling network architectures"."""

import ml_collections

from slipway.configs import double_dqn

# The presets of DQN; `get_config` changes their values to those of dueling DQN.
PRESETS = double_dqn.PRESETS


def get_config(preset: str = "cartpole") -> ml_collections.ConfigDict:
  """Returns the config of dueling DQN, with value and advantage streams."""
  c = double_dqn.get_config(preset)  # section 4.2: "the DDQN algorithm"
  c.network.dueling = True  # equation 9
  if preset == "cartpole":
    # With DQN's 500,000 it learns more slowly; docs/learning.md.
    c.replay.capacity = 50_000
  return c
