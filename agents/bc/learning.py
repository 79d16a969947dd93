"""The learner of behaviour cloning."""

import typing
from collections.abc import Mapping

import ml_collections
import numpy as np
import tensorflow as tf
from acme import specs

from slipway.agents import core, normalizer, optimizer, policies
from slipway.agents.networks import tf_network, tf_ops
from slipway.replay.tables import dataset as dataset_lib


class BCLearner:
  """Learner of behaviour cloning, which maximises the likelihood of actions.

    loss = -log pi(a | o)

  with recorded observations o and actions a.

  Pomerleau 1991, "Efficient training of artificial neural networks for
  autonomous navigation".

  Attributes:
    steps: number of updates done, int64 [].
  """

  def __init__(
    self, config: ml_collections.ConfigDict, spec: specs.EnvironmentSpec
  ):
    self._learner = config.learner.copy_and_resolve_references()
    self._normalizer = normalizer.Normalizer(config, spec, policies.POLICY)
    self._declaration = policies.make_policy(config.network, spec)
    self._policy = tf_network.Network(
      self._declaration, config.seed, policies.POLICY
    )
    self._optimizer = optimizer.Optimizer(
      self._policy.trainable_variables,
      optimizer.Settings.from_config(self._learner),
    )
    self.steps = tf.Variable(tf.zeros((), tf.int64), name="trainer_steps")

  def update(self, batch: dataset_lib.Batch) -> core.Update:
    self._normalizer.add_observations(batch.data.o_tm1)
    observation = self._normalizer.normalize_observations(batch.data.o_tm1)
    with tf.GradientTape() as tape:
      policy = self._declaration.head.distribution(
        tf_ops, self._policy(observation)
      )
      loss = -tf.reduce_mean(policy.log_prob(batch.data.a_tm1))
    factor = optimizer.rate_factor(self._learner, self.steps)
    norm = self._optimizer.minimize(
      loss, tape, self._learner.learning_rate * factor
    )
    with tf.control_dependencies([norm]):
      self.steps.assign_add(1)
    return core.Update({"loss": loss, "gradient_norm": norm})

  def get_variables(self) -> dict[str, np.ndarray]:
    return self._policy.get_variables() | self._normalizer.get_variables()

  @property
  def checkpointed(self) -> Mapping[str, typing.Any]:
    return {
      **self._normalizer.checkpointed,
      "policy": self._policy,
      "optimizer": self._optimizer,
      "steps": self.steps,
    }
