"""DDPG. Lillicrap et al. 2016, "Continuous control with deep RL".

A deterministic policy climbs the gradient of one critic. Both have target
networks, which follow them slowly. Noise on the actions explores.
"""

import ml_collections

from slipway.configs import actor_critic, presets


def get_config(preset: str = "pendulum") -> ml_collections.ConfigDict:
  """Returns the config of DDPG.

  Args:
    preset: one of `PRESETS`.

  Raises:
    ValueError: the preset is unknown.
  """
  c = actor_critic.make_config()
  c.network.critics = 1
  c.learner.policy_loss = "deterministic"
  c.learner.policy_value = "first"
  presets.apply(c, PRESETS, preset)
  return c


# The presets of DDPG, by name, with RL Baselines3 Zoo's learning rate.
PRESETS: presets.Presets = actor_critic.make_presets(1e-3, {})
