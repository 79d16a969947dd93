"""Prioritized DQN. Schaul et al. 2016, "Prioritized experience replay".

The paper's best agent is built on double DQN, and Reverb's prioritized selector
implements the paper's proportional variant. The paper divides the learning rate
by four, since it samples larger errors more often. Here it is kept, since the
steps of Adam do not grow with the errors.
"""

import ml_collections

from slipway.configs import dqn

# The presets of DQN; `get_config` adds prioritized sampling and double DQN.
PRESETS = dqn.PRESETS


def get_config(preset: str = "cartpole") -> ml_collections.ConfigDict:
  """Returns the config of prioritized double DQN."""
  c = dqn.get_config(preset)
  c.learner.double = True  # section 4: "we use double DQN"
  c.replay.sampler = "prioritized"
  if preset == "cartpole":
    # With DQN's 500,000, half of the seeds of Ape-X did not learn; with 50,000,
    # more of them fell back; docs/learning.md.
    c.replay.capacity = 75_000
    # Ape-X keeps its returns in this way, too; docs/learning.md.
    dqn.forgo_averaging(c)
  if preset == "lunarlander":
    # With DQN's 100,000, updates become small before it has learned to land:
    # 173 at the end of one run.
    c.learner.decay_steps = 200_000  # as many environment steps
  return c
