"""The improvement of BCQ: a policy among the actions of a model of the data."""

import typing

import ml_collections
import tensorflow as tf

from slipway.agents.actor_critic import critics as critics_lib
from slipway.agents.actor_critic import improvement
from slipway.agents.losses import offline
from slipway.agents.networks import generative_policy, tf_ops

# Weight lambda of the lowest critic's value in the targets: the appendix.
_LOWEST_WEIGHT = 0.75


class BatchConstrainedImprovement(improvement.Improvement):
  """Actions like those of the data, changed a little towards higher values.

  Fujimoto et al. 2019, "Off-policy deep reinforcement learning without
  exploration" (https://arxiv.org/abs/1812.02900), algorithm 1. Of the target
  network, only the changes are used.
  """

  metrics = ("policy_loss", "model_loss")

  def __init__(
    self,
    config: ml_collections.ConfigDict,
    policy: generative_policy.GenerativePolicy,
    critics: critics_lib.Critics,
  ):
    """Makes policy, model and target.

    Args:
      critics: the critics, whose targets value the next actions.
    """
    super().__init__(config, policy)
    self._declared, self._critics = policy, critics

  def next_action(
    self, features: tf.Tensor, seed: tf.Tensor
  ) -> improvement.NextAction:
    """Returns the value of the best of N actions; see `Improvement`."""
    count = self._learner.action_samples
    tiled = tf.tile(features, [count] + [1] * (len(features.shape) - 1))
    generated = self._generate(tiled, seed)
    action = self._declared.perturb(self._target.layers, tiled, generated)
    shape = [count, -1, typing.cast(int, action.shape[-1])]
    values = self._critics.compute_each_target_value(
      features, tf.reshape(action, shape)
    )
    return improvement.NextAction(
      None, value=offline.best_value(values, _LOWEST_WEIGHT)
    )

  def update(
    self,
    features: tf.Tensor,
    action: tf.Tensor,
    value: improvement.ValueFunction,
    seed: tf.Tensor,
    factor: tf.Tensor,
  ) -> dict[str, tf.Tensor]:
    network, layers = self._declared, self.network.layers
    with tf.GradientTape(watch_accessed_variables=False) as tape:
      # Gradients flow through the critics' inputs, not into their weights.
      tape.watch(self.network.trainable_variables)
      mean, log_std = network.encode(layers, features, action)
      noise = tf_ops.Noise(seed).normal(tf.shape(mean))
      decoded = network.decode(layers, features, mean + tf.exp(log_std) * noise)
      model_loss = tf.reduce_mean(
        offline.autoencoder_loss(
          offline.imitation_error(decoded, action), mean, log_std
        )
      )
      generated = tf.stop_gradient(self._generate(features, seed + 1))
      changed = network.perturb(layers, features, generated)
      loss = -tf.reduce_mean(value(features, changed))
      total = loss + model_loss  # of different variables
    self._optimizer.minimize(total, tape, self._rate * factor)
    return {"policy_loss": loss, "model_loss": model_loss}

  def _generate(self, features: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
    """Samples an action of the model for each of B observations, [B, A]."""
    shape = [tf.shape(features)[0], self._declared.latents]
    z = generative_policy.clip_latents(tf_ops, tf_ops.Noise(seed).normal(shape))
    return self._declared.decode(self.network.layers, features, z)
