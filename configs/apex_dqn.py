"""Ape-X DQN. Horgan et al. 2018, "Distributed prioritized experience replay".

Prioritized double dueling n-step DQN with several workers. Each environment
has its own constant epsilon, and workers compute the initial priorities.
"""

import ml_collections

from slipway.configs import prioritized_dqn

# The presets of DQN; `get_config` changes their values to those of Ape-X.
PRESETS = prioritized_dqn.PRESETS


def get_config(preset: str = "cartpole") -> ml_collections.ConfigDict:
  """Returns the config of Ape-X DQN: dueling, n-step, several workers."""
  c = prioritized_dqn.get_config(preset)
  c.network.dueling = True  # section 4.1
  c.adder.n_step = 3  # section 4.1
  c.exploration.schedule = "ladder"  # section 4.1
  c.topology.workers = 2  # Horgan: 360, on as many cores
  if not c.adder.stacked_frames:  # small observations
    c.topology.environments_per_worker = 32  # a step costs half as with 8
    # One publication costs several trainer steps; proxies poll 20 times per s.
    c.variables.publish_period = 100
    # 4 transitions per item cost a third of 4 items; with 8, some seeds did not
    # learn. Horgan's actors send 50 together, which are sampled separately.
    c.replay.transitions_per_item = 4
  if preset == "cartpole":
    # With two streams, policies kept falling back; docs/learning.md.
    c.network.dueling = False
    c.adder.n_step = 15  # as DQN; docs/learning.md
  if preset == "lunarlander":
    # An update for 4 environment steps, so DQN's periods and decays, which are
    # in updates, last four times as many of them.
    c.replay.samples_per_insert = 32.0
    c.learner.decay_steps = 100_000  # DQN's: 400,000 environment steps
  return c
