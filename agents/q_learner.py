"""QLearner: what the learners of action values share."""

import typing
from collections.abc import Callable, Mapping

import ml_collections
import numpy as np
import tensorflow as tf
from acme import specs

from slipway.agents import normalizer, optimizer, targets
from slipway.agents.networks import action_masks, tf_network
from slipway.environments import arrays
from slipway.replay.tables import dataset, importance


class QLearner:
  """An online network, its optimizer, and a target network that follows.

  Attributes:
    normalizer: of the batches; networks take its observations.
    online: the network that learns.
    target: of the same variables as `online` had at its last copy.
    steps: updates done, int64.
  """

  def __init__(
    self,
    config: ml_collections.ConfigDict,
    spec: specs.EnvironmentSpec,
    make_network: Callable[[], tf_network.Network],
  ):
    """Makes both networks with equal variables.

    Args:
      config: the whole config.
      spec: of one environment.
      make_network: called twice; makes networks with equal variables.
    """
    self._learner = config.learner.copy_and_resolve_references()
    self._replay = config.replay.copy_and_resolve_references()
    self._masked = isinstance(spec.observations, arrays.MaskedArray)
    self.normalizer = normalizer.Normalizer(config, spec)
    self.online = make_network()
    self.target = make_network()
    self._optimizer = optimizer.Optimizer(
      self.online.trainable_variables,
      self._learner.adam_epsilon,
      self._learner.max_gradient_norm,
    )
    self.steps = tf.Variable(tf.zeros((), tf.int64), name="trainer_steps")

  def descend(
    self, tape: tf.GradientTape, batch: dataset.Batch, losses: tf.Tensor
  ) -> dict[str, tf.Tensor]:
    """Takes a gradient step, and copies to the target network where it is due.

    Args:
      tape: that has recorded the losses.
      batch: that they belong to; `importance.importance_weights` weigh them.
      losses: [B].

    Returns:
      The loss and the norm of its gradient, as metrics.
    """
    with tape:
      loss = tf.reduce_mean(self._weights(batch) * losses)  # []
    norm = self._optimizer.minimize(loss, tape, self._learner.learning_rate)
    # Not before the batch is there: nothing else orders a count after the
    # iterator, which may end in this step.
    with tf.control_dependencies([norm]):
      self.steps.assign_add(1)
    targets.copy_periodically(
      self.target.variables,
      self.online.variables,
      self.steps,
      self._learner.target_update_period,
    )
    return {"loss": loss, "gradient_norm": norm}

  def get_variables(self) -> dict[str, np.ndarray]:
    """A copy of the online network's variables, by name."""
    return self.online.get_variables() | self.normalizer.get_variables()

  @property
  def checkpointed(self) -> Mapping[str, typing.Any]:
    """Both networks, the optimizer, the step count, and any statistics."""
    return {
      **self.normalizer.checkpointed,
      "online": self.online,
      "target": self.target,
      "optimizer": self._optimizer,
      "steps": self.steps,
    }

  def _legal_mean(self, values: tf.Tensor) -> tf.Tensor:
    """Returns the mean of the values of legal actions, []."""
    if self._masked:
      values = tf.boolean_mask(values, values > 0.5 * action_masks.ILLEGAL)
    return tf.reduce_mean(values)

  def _weights(self, batch: dataset.Batch) -> tf.Tensor:
    """Returns importance weights [B]; ones where sampling is uniform.

    With shards, sampling is uniform in each, and not over all of their items.
    """
    if self._replay.sampler == "uniform":
      ones = tf.ones_like(batch.probabilities, tf.float32)
      return ones if batch.share is None else batch.share * ones
    start = self._replay.importance_exponent_start
    end = self._replay.importance_exponent_end
    done = tf.cast(self.steps, tf.float32) / self._replay.importance_steps
    exponent = start + (end - start) * tf.minimum(1.0, done)
    return importance.importance_weights(
      batch.probabilities, batch.table_size, exponent, batch.share
    )
