"""V-MPO. Song et al. 2019, "V-MPO: on-policy maximum a posteriori".

The policy learns from the half of each batch with the highest advantages,
weighted by them. Bounds of the KL divergence limit each change of the policy.
"""

import ml_collections

from slipway.configs import policy_gradient, presets, tasks


def get_config(preset: str = "cartpole") -> ml_collections.ConfigDict:
  """Returns the config of V-MPO: mode `sync`, with the loss 'vmpo'.

  Args:
    preset: one of `PRESETS`.

  Raises:
    ValueError: the preset is unknown.
  """
  c = policy_gradient.make_config()
  c.mode = "sync"
  c.network.activation = "tanh"
  c.topology.workers = 1
  c.learner.policy_loss = "vmpo"
  presets.apply(c, PRESETS, preset)
  return c


def _cartpole(c: ml_collections.ConfigDict) -> None:
  """Sets CartPole-v1 and V-MPO's hyperparameters for it."""
  tasks.cartpole(c)
  c.topology.environments_per_worker = 8
  c.learner.batch_size = 8
  c.adder.unroll = 32
  c.adder.discount = 0.99  # 0.98 falls back, as with A2C; docs/learning.md
  c.learner.gae_lambda = 0.9
  c.learner.epochs = 10  # passes until the workers get the new policy
  c.learner.learning_rate = 1e-3
  c.learner.decay_steps = 780  # batches: 200,000 environment steps
  c.evaluation.period_steps = 10  # batches


def _image_learner(c: ml_collections.ConfigDict) -> None:
  """Sets the network, rollouts and learner of Atari and MinAtar."""
  c.network.activation = "relu"
  c.network.shared = True
  c.adder.unroll = 128
  c.adder.discount = 0.99
  c.learner.gae_lambda = 0.95
  c.learner.epochs = 4  # passes until the workers get the new policy
  c.learner.minibatch_size = 256
  c.learner.learning_rate = 2.5e-4


# The presets of V-MPO, by name.
PRESETS: presets.Presets = {
  "cartpole": _cartpole,
  **policy_gradient.make_image_presets(_image_learner, environments=8),
}
