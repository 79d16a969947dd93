"""DDPG. Lillicrap et al. 2016, "Continuous control with deep RL".

A deterministic policy climbs the gradient of one critic. Both have target
networks, which follow them slowly. Noise on the actions explores.
"""

import ml_collections

from slipway.configs import actor_critic, presets, tasks


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


def _pendulum(c: ml_collections.ConfigDict) -> None:
  tasks.pendulum(c)
  actor_critic.set_small_replay(c)
  c.learner.learning_rate = 1e-3  # RL Baselines3 Zoo


def _halfcheetah(c: ml_collections.ConfigDict) -> None:
  tasks.halfcheetah(c)
  actor_critic.set_mujoco_replay(c)
  c.learner.learning_rate = 1e-3  # RL Baselines3 Zoo


# The presets of DDPG and TD3, by name.
PRESETS: presets.Presets = {
  "pendulum": _pendulum,
  "halfcheetah": _halfcheetah,
}
