"""TD3. Fujimoto et al. 2018, "Addressing function approximation error".

DDPG with three changes: targets use the lower value of two critics and noisy
next actions, and the policy learns half as often as the critics.
"""

import ml_collections

from slipway.configs import ddpg, presets


def get_config(preset: str = "pendulum") -> ml_collections.ConfigDict:
  """Returns the config of TD3: DDPG with the values of section 6.1.

  Args:
    preset: one of `PRESETS`.

  Raises:
    ValueError: the preset is unknown.
  """
  c = ddpg.get_config(preset)
  c.network.critics = 2
  c.learner.policy_period = 2
  c.learner.target_update_period = 2
  c.learner.target_noise = 0.2
  c.learner.target_noise_clip = 0.5
  return c


# The presets of TD3, by name.
PRESETS: presets.Presets = ddpg.PRESETS
