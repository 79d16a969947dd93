"""APPO. Petrenko et al. 2020, "Sample Factory", section 3.4.

PPO whose workers do not wait, with V-trace for the age of their policies.
"""

import ml_collections

from slipway.configs import ppo

PRESETS = ppo.PRESETS


def get_config(preset: str = "cartpole") -> ml_collections.ConfigDict:
  """Returns PPO in mode `async`, with V-trace."""
  c = ppo.get_config(preset)
  c.mode = "async"
  c.learner.advantage_estimator = "vtrace"
  return c
