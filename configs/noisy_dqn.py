"""NoisyNet-DQN. Fortunato et al. 2018, "Noisy networks for exploration"."""

import ml_collections

from slipway.configs import dqn

# The presets of DQN; `get_config` changes their values to those of NoisyNet.
PRESETS = dqn.PRESETS


def get_config(preset: str = "cartpole") -> ml_collections.ConfigDict:
  """Returns the config of NoisyNet-DQN, whose noisy weights replace epsilon."""
  c = dqn.get_config(preset)
  c.network.noisy = True
  c.exploration.schedule = "linear"
  c.exploration.epsilon_start = 0.0  # section 3.1: "no longer used"
  c.exploration.epsilon_end = 0.0
  if preset == "cartpole":
    dqn.forgo_averaging(c)  # with an average, one of two seeds did not learn
    # With 15 steps, and 12,500 updates' decay, it stayed at 130; without a
    # limit of gradients it was at 280 after 200,000 steps; docs/learning.md.
    c.adder.n_step = 8
    c.learner.max_gradient_norm = 10.0
  return c
