"""Rainbow. Hessel et al. 2018, "Rainbow: combining improvements in deep
reinforcement learning".
"""

import ml_collections

from slipway.configs import c51, dqn

# The presets of DQN; `get_config` changes their values to those of Rainbow.
PRESETS = c51.PRESETS


def get_config(preset: str = "cartpole") -> ml_collections.ConfigDict:
  """Returns the config of Rainbow, which combines six improvements of DQN."""
  c = c51.get_config(preset)
  c.learner.double = True
  c.network.dueling = True
  c.network.noisy = True
  c.exploration.schedule = "linear"
  c.exploration.epsilon_start = 0.0  # table 1
  c.exploration.epsilon_end = 0.0
  c.adder.n_step = 3  # table 1
  c.replay.sampler = "prioritized"
  c.replay.priority_exponent = 0.5  # omega; table 1
  if preset == "cartpole":
    c.replay.capacity = 50_000  # DQN's 500,000 was not tried
    dqn.forgo_averaging(c)  # an average did not help; docs/learning.md
    # With two streams, policies kept falling back; docs/learning.md.
    c.network.dueling = False
    c.adder.n_step = 15  # as DQN; docs/learning.md
    # Half of DQN's step size. A cross-entropy's gradients do not become smaller
    # as the errors do, so larger steps kept losing what was learned;
    # docs/learning.md.
    c.learner.learning_rate = 1e-3
  if preset == "lunarlander":
    # With DQN's 100,000, updates become small before it has learned to land:
    # 110 at the end of one run.
    c.learner.decay_steps = 200_000  # as many environment steps
  if preset in dqn.ATARI:
    c.learner.learning_rate = 6.25e-5  # table 1
    c.learner.adam_epsilon = 1.5e-4  # table 1
  return c
