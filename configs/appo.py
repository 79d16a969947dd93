"""APPO: PPO whose workers do not wait, with V-trace for older policies.

Petrenko et al. 2020, "Sample Factory" (https://arxiv.org/abs/2006.11751),
section 3.4, combine PPO's clipping with V-trace.
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
