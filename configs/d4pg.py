"""D4PG. Barth-Maron et al. 2018, "Distributed distributional DDPG".

DDPG with a critic that learns the distribution of returns, n-step returns,
prioritized replay, and several workers.
"""

import ml_collections

from slipway.configs import actor_critic, presets

# Lowest and highest discounted return of a task, by preset: with a discount of
# 0.99, some 100 of its lowest and highest rewards.
_RETURNS = {
  "pendulum": (-1_600.0, 0.0),  # rewards from -16 to 0
  "lunarlander": (-300.0, 300.0),
  "bipedalwalker": (-150.0, 100.0),
  "halfcheetah": (-200.0, 1_500.0),  # rewards of up to 15
  "hopper": (-50.0, 450.0),
  "walker2d": (-100.0, 650.0),
  "ant": (-200.0, 750.0),
  "humanoid": (-100.0, 1_000.0),
  "dm_control": (0.0, 100.0),  # rewards from 0 to 1
}


def get_config(preset: str = "pendulum") -> ml_collections.ConfigDict:
  """Returns the config of D4PG, with the noise of section 4.

  So is n, but for MuJoCo's tasks. The learning rate there is 1e-4.

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
  c.network.lowest_return, c.network.highest_return = _RETURNS[preset]
  return c


def _mujoco(c: ml_collections.ConfigDict) -> None:
  """Sets D4PG's values for the tasks of MuJoCo."""
  actor_critic.start_early(c)
  # 5 in the paper, with which returns rise half as fast; docs/learning.md.
  c.adder.n_step = 1


# The presets of D4PG, by name.
PRESETS: presets.Presets = actor_critic.make_presets(
  3e-4, {"pendulum": 1e-3}, _mujoco
)
