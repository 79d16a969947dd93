"""The intrinsic curiosity module: steps are new if they surprise a model."""

from collections.abc import Sequence

import ml_collections
import tensorflow as tf
from acme import specs

from slipway.agents.bonuses import embedding, novelty
from slipway.agents.networks import tf_network
from slipway.environments import arrays


class IntrinsicCuriosity(tf.Module):
  """Novelty of a step: the error of a model that predicts its result.

    1/2 || h(phi(o), a) - phi(o') ||^2

  with features phi and a forward model h. An inverse model of phi(o) and
  phi(o') predicts the action a, so that features contain what actions change.
  Both losses train phi, the forward model's with the weight beta, the inverse
  one's with 1 - beta. Pathak et al. 2017, "Curiosity-driven exploration by
  self-supervised prediction" (https://arxiv.org/abs/1705.05363), equations 2 to
  7. Its actions are discrete; continuous ones have half the squared distance as
  the inverse model's loss.
  """

  def __init__(
    self,
    config: ml_collections.ConfigDict,
    observations: specs.Array,
    actions: specs.Array,
  ):
    super().__init__(name="icm")
    features = config.bonus.features
    self._beta = config.bonus.forward_weight
    self._component_sizes = arrays.component_sizes(actions)
    width = (
      sum(self._component_sizes) if self._component_sizes else actions.shape[0]
    )
    self._features = embedding.make_embedding(
      config, observations, tuple(config.network.hidden_sizes), "icm_features"
    )
    self._forward = tf_network.Network(
      embedding.Perceptron((features, width), 2 * features, features),
      config.seed,
      "icm_forward",
    )
    self._inverse = tf_network.Network(
      embedding.Perceptron((features, features), 2 * features, width),
      config.seed,
      "icm_inverse",
    )

  @property
  def learned(self) -> Sequence[tf.Variable]:
    networks = (self._features, self._forward, self._inverse)
    return [v for network in networks for v in network.trainable_variables]

  def __call__(self, steps: novelty.Steps) -> novelty.Measured:
    """Measures steps; see `novelty.Novelty`."""
    before = self._features(steps.observation)
    after = self._features(steps.next_observation)
    action = self._encode(steps.action)
    predicted = self._forward(before, action)
    error = 0.5 * tf.reduce_sum((predicted - after) ** 2, axis=1)
    inverse = self._inverse_loss(self._inverse(before, after), action)
    loss = self._beta * error + (1.0 - self._beta) * inverse
    return novelty.Measured(tf.stop_gradient(error), loss)

  def _encode(self, action: tf.Tensor) -> tf.Tensor:
    """Returns actions as vectors [N, W]: one-hot codes of discrete values."""
    if not self._component_sizes:
      return action
    components = tf.unstack(
      tf.reshape(action, [-1, len(self._component_sizes)]), axis=1
    )
    codes = [
      tf.one_hot(x, size)
      for x, size in zip(components, self._component_sizes, strict=True)
    ]
    return tf.concat(codes, axis=1)

  def _inverse_loss(self, predicted: tf.Tensor, action: tf.Tensor) -> tf.Tensor:
    """Returns the losses [N] of the inverse model's predictions [N, W]."""
    if not self._component_sizes:
      return 0.5 * tf.reduce_sum((predicted - action) ** 2, axis=1)
    sizes = list(self._component_sizes)
    losses = [
      tf.nn.softmax_cross_entropy_with_logits(labels, logits)
      for labels, logits in zip(
        tf.split(action, sizes, axis=1),
        tf.split(predicted, sizes, axis=1),
        strict=True,
      )
    ]
    return tf.add_n(losses)
