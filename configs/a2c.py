"""A2C. Mnih et al. 2016, "Asynchronous methods for deep RL".

Returns span the whole rollout, and each batch gets one gradient step. In mode
`sync`, this is A2C. In mode `async`, workers collect while the trainer learns,
as in A3C, whose workers also compute the gradients.
"""

import ml_collections

from slipway.configs import policy_gradient, presets, tasks


def get_config(preset: str = "cartpole") -> ml_collections.ConfigDict:
  """Returns the config of A2C: mode `sync`, with the plain policy gradient.

  Args:
    preset: one of `PRESETS`.

  Raises:
    ValueError: the preset is unknown.
  """
  c = policy_gradient.make_config()
  c.mode = "sync"
  c.network.activation = "tanh"
  c.topology.workers = 1
  c.learner.policy_loss = "policy_gradient"
  presets.apply(c, PRESETS, preset)
  return c


def _cartpole(c: ml_collections.ConfigDict) -> None:
  """Sets CartPole-v1 and A2C's hyperparameters for it."""
  tasks.cartpole(c)
  c.topology.environments_per_worker = 16  # the paper's threads
  c.learner.batch_size = 16
  c.adder.unroll = 20  # section 5.1: 5
  # 0.98 does not see the edge of the track, and falls back; docs/learning.md.
  c.adder.discount = 0.99
  c.environment.reward_scale = 0.05  # so that values are at most 5
  # No entropy bonus (the paper's weight is 0.01, section 5.2): once all
  # episodes are long, it would outweigh the small advantages, and the policy
  # would get worse again.
  c.learner.learning_rate = 2e-3
  c.learner.decay_steps = 625  # batches: 200,000 environment steps
  c.evaluation.period_steps = 100  # batches


def _lunarlander(c: ml_collections.ConfigDict) -> None:
  """Sets RL Baselines3 Zoo's values for LunarLander and 200,000 steps."""
  tasks.lunarlander(c)
  c.topology.environments_per_worker = 8
  c.learner.batch_size = 8
  c.adder.unroll = 5
  c.adder.discount = 0.995
  c.learner.learning_rate = 8.3e-4
  c.learner.decay_steps = 5_000  # batches: 200,000 environment steps
  c.learner.entropy_weight = 1e-5
  c.learner.value_weight = 1.0  # Stable-Baselines3: 0.5 of the whole error
  c.evaluation.period_s = 5.0
  c.evaluation.period_steps = 500  # batches


def _image_learner(c: ml_collections.ConfigDict) -> None:
  """Sets the network, rollouts and learner of Atari and MinAtar."""
  c.network.activation = "relu"
  c.network.shared = True  # section 5.1
  c.adder.unroll = 5  # section 5.1
  c.adder.discount = 0.99  # section 5.1
  c.learner.learning_rate = 7e-4  # Stable-Baselines3's default
  c.learner.entropy_weight = 0.01  # section 5.2


# The presets of A2C, by name.
PRESETS: presets.Presets = {
  "cartpole": _cartpole,
  "lunarlander": _lunarlander,
  **policy_gradient.make_image_presets(_image_learner, environments=16),
}
