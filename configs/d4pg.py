"""D4PG. Barth-Maron et al. 2018, "Distributed distributional DDPG".

DDPG with a critic that learns the distribution of returns, n-step returns,
prioritized replay, and several workers.
"""

import ml_collections

from slipway.configs import actor_critic, presets, tasks


def get_config(preset: str = "pendulum") -> ml_collections.ConfigDict:
  """Returns the config of D4PG, with the values of section 4.

  Args:
    preset: one of `PRESETS`.

  Raises:
    ValueError: the preset is unknown.
  """
  c = actor_critic.make_config()
  c.network.critics = 1
  c.network.critic_head = "categorical"
  c.network.layer_norm = "first"  # Acme
  c.learner.policy_loss = "deterministic"
  c.learner.policy_value = "first"
  c.adder.n_step = 5
  c.replay.sampler = "prioritized"
  c.exploration.noise_std = 0.3
  c.topology.workers = 2
  presets.apply(c, PRESETS, preset)
  return c


def _pendulum(c: ml_collections.ConfigDict) -> None:
  tasks.pendulum(c)
  actor_critic.set_small_replay(c)
  c.network.lowest_return = -1_600.0  # 100 steps at the lowest reward, -16
  c.network.highest_return = 0.0
  c.learner.learning_rate = 1e-3


def _halfcheetah(c: ml_collections.ConfigDict) -> None:
  tasks.halfcheetah(c)
  actor_critic.set_mujoco_replay(c)
  c.network.lowest_return = -200.0
  c.network.highest_return = 1_500.0  # 100 steps at a reward of 15
  c.learner.learning_rate = 3e-4


# The presets of D4PG, by name.
PRESETS: presets.Presets = {
  "pendulum": _pendulum,
  "halfcheetah": _halfcheetah,
}
