"""SAC. Haarnoja et al. 2018, "Soft actor-critic algorithms and applications".

The learner adapts the temperature to a target entropy. The targets of the
critics use the lower value of two target networks.
"""

import ml_collections

from slipway.configs import actor_critic, presets


def get_config(preset: str = "pendulum") -> ml_collections.ConfigDict:
  """Returns the config of SAC, with values of the paper's table 1.

  Args:
    preset: one of `PRESETS`.

  Raises:
    ValueError: the preset is unknown.
  """
  c = actor_critic.make_config()
  presets.apply(c, PRESETS, preset)
  return c


# The presets of SAC, by name.
PRESETS: presets.Presets = actor_critic.make_presets(
  3e-4,
  # RL Baselines3 Zoo
  {"pendulum": 1e-3, "lunarlander": 7.3e-4, "bipedalwalker": 7.3e-4},
)
