"""Ape-X DQN. Horgan et al. 2018, "Distributed prioritized experience replay".

Prioritized double dueling n-step DQN, several workers, each environment with
its own rung of the epsilon ladder; workers compute the first priorities.
"""

import ml_collections

from slipway.configs import prioritized_dqn

PRESETS = prioritized_dqn.PRESETS


def get_config(preset: str = "cartpole") -> ml_collections.ConfigDict:
  """Prioritized DQN with dueling heads, 3-step returns and a ladder."""
  c = prioritized_dqn.get_config(preset)
  c.network.dueling = True  # section 4.1
  c.adder.n_step = 3  # section 4.1
  c.exploration.schedule = "ladder"  # section 4.1
  c.topology.workers = 2  # Horgan: 360, on as many cores
  if not c.adder.stacked_frames:  # whose batches are small work
    c.topology.environments_per_worker = 32  # a step costs half of that with 8
    # Trainer steps; a copy costs several, and proxies poll 20 times per second.
    c.variables.publish_period = 100
    # From four environments, at a third of the cost; with eight, some seeds did
    # not learn. Horgan's actors send 50 together, which are sampled separately.
    c.replay.transitions_per_item = 4
  return c
