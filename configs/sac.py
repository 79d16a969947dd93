"""SAC. Haarnoja et al. 2018, "Soft actor-critic algorithms and applications".

The learner adapts the temperature to a target entropy. The targets of the
critics use the lower value of two target networks. For discrete actions:
Christodoulou 2019, "Soft actor-critic for discrete action settings"
(https://arxiv.org/abs/1910.07207).
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


def _cartpole(c: ml_collections.ConfigDict) -> None:
  """Sets CartPole-v1, with discrete actions: Christodoulou 2019."""
  tasks.cartpole(c)
  actor_critic.set_small_replay(c)
  c.network.hidden_sizes = (64, 64)
  c.learner.learning_rate = 1e-3


# The presets of SAC, by name.
PRESETS: presets.Presets = {
  **actor_critic.make_presets(
    3e-4,
    # RL Baselines3 Zoo
    {"pendulum": 1e-3, "lunarlander": 7.3e-4, "bipedalwalker": 7.3e-4},
  ),
  "cartpole": _cartpole,
}
