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
    # Without epsilon, nearly all episodes come from one policy, whose cart
    # drifts off the track after 140 steps. A larger replay is filled with
    # those, and with a target network per 100 updates most seeds stayed there;
    # docs/learning.md.
    c.replay.capacity = 20_000
    c.learner.target_update_period = 800
    c.learner.decay_steps = 12_500  # 100,000 environment steps
    # With DQN's 15 steps it stayed at 130, and without a limit of gradients,
    # which its noise makes vary more, at 280; docs/learning.md.
    c.adder.n_step = 8
    c.learner.max_gradient_norm = 10.0
  if preset == "lunarlander":
    # With DQN's 100,000, updates become small before it has learned to land:
    # 128 at the end of one run, and with these 216 and 268.
    c.learner.decay_steps = 200_000  # as many environment steps
  return c
