"""APPO. Petrenko et al. 2020, "Sample Factory", section 3.4.

PPO whose workers collect while the trainer learns; V-trace corrects for
rollouts of older policies.
"""

import ml_collections

from slipway.configs import ppo

# The presets of PPO; `get_config` changes their values to those of APPO.
PRESETS = ppo.PRESETS


def get_config(preset: str = "cartpole") -> ml_collections.ConfigDict:
  """Returns the config of APPO: PPO in mode `async`, with V-trace."""
  c = ppo.get_config(preset)
  c.mode = "async"
  c.learner.advantage_estimator = "vtrace"
  return c
