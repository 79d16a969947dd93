"""SAC. Haarnoja et al. 2018, "Soft actor-critic algorithms and applications".

The learner adapts the temperature to a target entropy. The targets of the
critics use the lower value of two target networks.
"""

import ml_collections

from slipway.configs import actor_critic, presets, tasks


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


def _pendulum(c: ml_collections.ConfigDict) -> None:
  """Sets Pendulum-v1, with one update per environment step."""
  tasks.pendulum(c)
  actor_critic.set_small_replay(c)
  c.learner.learning_rate = 1e-3  # RL Baselines3 Zoo


def _halfcheetah(c: ml_collections.ConfigDict) -> None:
  tasks.halfcheetah(c)
  actor_critic.set_mujoco_replay(c)


# The presets of SAC, by name.
PRESETS: presets.Presets = {
  "pendulum": _pendulum,
  "halfcheetah": _halfcheetah,
}
