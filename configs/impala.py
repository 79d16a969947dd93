"""IMPALA. Espeholt et al. 2018, "Importance weighted actor-learner".

Workers collect the next batches while the trainer learns (mode `async`).
V-trace corrects for rollouts of older policies.
"""

import ml_collections

from slipway.configs import policy_gradient, presets, tasks


def get_config(preset: str = "cartpole") -> ml_collections.ConfigDict:
  """Returns the config of IMPALA: mode `async`, with V-trace.

  Args:
    preset: one of `PRESETS`.

  Raises:
    ValueError: the preset is unknown.
  """
  c = policy_gradient.make_config()
  c.network.activation = "tanh"
  c.topology.workers = 2
  c.learner.advantage_estimator = "vtrace"
  c.learner.policy_loss = "policy_gradient"
  presets.apply(c, PRESETS, preset)
  return c


def _cartpole(c: ml_collections.ConfigDict) -> None:
  """Sets CartPole-v1 and IMPALA's hyperparameters for it."""
  tasks.cartpole(c)
  c.topology.environments_per_worker = 8
  c.learner.batch_size = 16  # table D.1: 32
  c.adder.unroll = 20  # table D.1: 100; 20 in section 5.1
  # 0.98 does not see the edge of the track, and falls back; docs/learning.md.
  c.adder.discount = 0.99
  c.environment.reward_scale = 0.05  # so that values are at most 5
  # No entropy bonus (the paper's weight is 5e-5 to 0.01, table D.1): once all
  # episodes are long, it would outweigh the small advantages, and the policy
  # would get worse again.
  c.learner.learning_rate = 2e-3
  c.learner.decay_steps = 625  # batches: 200,000 environment steps
  c.evaluation.period_steps = 100  # batches


def _image_learner(c: ml_collections.ConfigDict) -> None:
  """Sets the network, rollouts and learner of Atari and MinAtar."""
  c.network.activation = "relu"
  c.network.shared = True  # figure 3
  c.adder.unroll = 20  # table G.1
  c.adder.discount = 0.99  # table G.1
  c.learner.learning_rate = 6e-4  # table G.1
  c.learner.entropy_weight = 0.01  # table G.1


# The presets of IMPALA, by name.
PRESETS: presets.Presets = {
  "cartpole": _cartpole,
  **policy_gradient.make_image_presets(_image_learner, environments=32),
}
