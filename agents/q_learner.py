"""QLearner: what learners of values share, which is all but their losses."""

import typing
from collections.abc import Callable, Mapping

import ml_collections
import numpy as np
import tensorflow as tf

from agents import adam
from agents.networks import tf_network
from replay import dataset, importance


class QLearner:
  """An online network, Adam, and a target network that follows.

  Attributes:
    online: the network that learns.
    target: of the same variables as `online` had at its last copy.
    steps: updates done, int64.
  """

  def __init__(
    self,
    config: ml_collections.ConfigDict,
    make_network: Callable[[], tf_network.Network],
  ):
    """Makes both networks with equal variables.

    Args:
      config: the whole config.
      make_network: called twice; makes networks with equal variables.
    """
    self._learner = config.learner.copy_and_resolve_references()
    self._replay = config.replay.copy_and_resolve_references()
    self.online = make_network()
    self.target = make_network()
    self._optimizer = adam.Adam(
      self.online.trainable_variables,
      self._learner.learning_rate,
      self._learner.adam_epsilon,
    )
    self.steps = tf.Variable(tf.zeros((), tf.int64), name="trainer_steps")

  def descend(
    self, tape: tf.GradientTape, batch: dataset.Batch, losses: tf.Tensor
  ) -> dict[str, tf.Tensor]:
    """One gradient step, and every so often a new target network.

    Args:
      tape: that has seen the losses; it goes on with the mean of them.
      batch: that they are of; `importance.importance_weights` weigh them.
      losses: [B].

    Returns:
      The loss and the norm of its gradient, as metrics.
    """
    with tape:
      loss = tf.reduce_mean(self._weights(batch) * losses)  # []
    gradients: list[typing.Any] = list(
      tape.gradient(loss, self.online.trainable_variables)
    )
    norm = tf.linalg.global_norm(gradients)
    limit = self._learner.max_gradient_norm
    # A product that is one for nearly all batches: 2 % of the Nature CNN's
    # update. A norm that is not finite is not within the limit either.
    gradients = tf.cond(
      norm <= limit,
      lambda: gradients,
      lambda: tf.clip_by_global_norm(gradients, limit, norm)[0],
    )
    self._optimizer.apply(gradients)
    # Not before the batch is there: nothing else orders a count after the
    # iterator, which may end in this step.
    with tf.control_dependencies([norm]):
      self.steps.assign_add(1)
    tf.cond(
      self.steps % self._learner.target_update_period == 0,
      self._copy_to_target,
      lambda: None,
    )
    return {"loss": loss, "gradient_norm": norm}

  def get_variables(self) -> dict[str, np.ndarray]:
    """A copy of the online network's variables, by name."""
    return self.online.get_variables()

  @property
  def checkpointed(self) -> Mapping[str, typing.Any]:
    """Both networks, the optimizer and the step count."""
    return {
      "online": self.online,
      "target": self.target,
      "optimizer": self._optimizer,
      "steps": self.steps,
    }

  def _weights(self, batch: dataset.Batch) -> tf.Tensor:
    """Importance weights [B]; ones where sampling is uniform.

    Of shards it is uniform in each, and not over all that they have.
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

  def _copy_to_target(self) -> None:
    for target, online in zip(
      self.target.variables, self.online.variables, strict=True
    ):
      target.assign(online)
