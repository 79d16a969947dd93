"""The learner of the DQN family."""

import typing
from collections.abc import Mapping

import ml_collections
import numpy as np
import tensorflow as tf
from acme import specs

from agents import adam
from agents.losses import q_learning
from agents.networks import q_network
from replay import dataset as dataset_lib
from replay import importance


class DQNLearner:
  """(Double) Q-learning with a target network and importance weights."""

  def __init__(
    self, config: ml_collections.ConfigDict, spec: specs.EnvironmentSpec
  ):
    """Makes online and target network with equal variables.

    Args:
      config: the whole config.
      spec: of an environment with discrete actions.
    """
    tf.random.set_seed(config.seed)
    self._learner = config.learner.copy_and_resolve_references()
    self._replay = config.replay.copy_and_resolve_references()
    self._online = q_network.make_q_network(config.network, spec)
    self._target = q_network.make_q_network(config.network, spec)
    self._copy_to_target()
    self._optimizer = adam.Adam(
      self._online.trainable_variables,
      self._learner.learning_rate,
      self._learner.adam_epsilon,
    )
    self.steps = tf.Variable(tf.zeros((), tf.int64), name="trainer_steps")

  def update(
    self, batch: dataset_lib.Batch
  ) -> tuple[tf.Tensor, dict[str, tf.Tensor]]:
    """One gradient step, and every so often a new target network.

    Returns:
      TD errors [B] before the step, and metrics.
    """
    o_tm1, a_tm1, r_t, discount_t, o_t = batch.transitions
    weights = self._weights(batch)  # [B]
    q_t = self._target(o_t)  # [B, A]
    q_t_selector = self._online(o_t) if self._learner.double else q_t
    with tf.GradientTape() as tape:
      q_tm1 = self._online(o_tm1)  # [B, A]
      output = q_learning.q_learning(
        q_tm1,
        a_tm1,
        r_t,
        discount_t,
        q_t,
        q_t_selector,
        self._learner.huber_delta,
      )
      loss = tf.reduce_mean(weights * output.loss)  # []
    gradients: list[typing.Any] = list(
      tape.gradient(loss, self._online.trainable_variables)
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
    return output.td_error, {
      "loss": loss,
      "gradient_norm": norm,
      "q_mean": tf.reduce_mean(q_tm1),
      "td_error_abs_mean": tf.reduce_mean(tf.abs(output.td_error)),
    }

  def get_variables(self) -> dict[str, np.ndarray]:
    """A copy of the online network's variables, by name."""
    return q_network.get_variables(self._online)

  @property
  def checkpointed(self) -> Mapping[str, typing.Any]:
    """Both networks, the optimizer and the step count."""
    return {
      "online": self._online,
      "target": self._target,
      "optimizer": self._optimizer,
      "steps": self.steps,
    }

  def _weights(self, batch: dataset_lib.Batch) -> tf.Tensor:
    """Importance weights [B]; ones where sampling is uniform."""
    if self._replay.sampler == "uniform":
      return tf.ones_like(batch.transitions.r_t)
    start = self._replay.importance_exponent_start
    end = self._replay.importance_exponent_end
    done = tf.cast(self.steps, tf.float32) / self._replay.importance_steps
    exponent = start + (end - start) * tf.minimum(1.0, done)
    return importance.importance_weights(
      batch.probabilities, batch.table_size, exponent
    )

  def _copy_to_target(self) -> None:
    for target, online in zip(
      self._target.variables, self._online.variables, strict=True
    ):
      target.assign(online)
