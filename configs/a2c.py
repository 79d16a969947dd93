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
  c.adder.discount = 0.98
  c.environment.reward_scale = 0.05  # so that values are at most 2.5
  # No entropy bonus (the paper's weight is 0.01, section 5.2): once all
  # episodes are long, it would outweigh the small advantages, and the policy
  # would get worse again.
  c.learner.learning_rate = 2e-3
  c.learner.decay_steps = 625  # batches: 200,000 environment steps
  c.evaluation.period_steps = 100  # batches


# The presets of A2C, by name.
PRESETS: presets.Presets = {"cartpole": _cartpole}
