"""A2C, the synchronous form of A3C (Mnih et al. 2016, arXiv:1602.01783).

    slipway train --config=examples/own_algorithm/a2c.py

docs/own_algorithm.md explains it.
"""

import numpy as np
import tensorflow as tf

from slipway.agents import core, optimizer, policies
from slipway.agents.losses import advantages
from slipway.agents.networks import layers, tf_network, tf_ops, value_network
from slipway.configs import base, checks, fields, groups, rules
from slipway.replay.items import sequence_adder, sequences
from slipway.replay.tables import table_spec

# 1. The config: shared groups of fields, and the algorithm's own.
FIELDS = {
  **base.FIELDS,
  **groups.POLICY,
  **groups.LEARNER,
  **groups.QUEUE,
  "adder.unroll": fields.Field(
    8, "environment steps of a rollout", checks.at_least(1, "nothing to learn")
  ),
  "adder.discount": fields.Field(
    0.98, "gamma per step", checks.within(0, 1, "returns would diverge")
  ),
  "learner.entropy_weight": fields.Field(
    0.01, "weight of the entropy", checks.at_least(0, "it would be minimised")
  ),
}


def get_config():
  """Returns the config of `--config=examples/own_algorithm/a2c.py`."""
  c = fields.make_config(FIELDS)
  c.agent = "a2c:Builder"  # the module and the class below
  c.mode = "sync"
  c.environment.name = "CartPole-v1"
  c.limits.target_return = 475.0
  c.network.activation, c.network.initializer = "tanh", "orthogonal"
  c.topology.workers, c.topology.environments_per_worker = 1, 16
  c.learner.batch_size = 16  # rollouts
  c.learner.learning_rate = 2e-3
  c.learner.max_gradient_norm = 0.5
  c.learner.steps_per_call = c.variables.publish_period = 1
  c.evaluation.period_steps = 100
  return c


# 2. The learner: TensorFlow, traced once.
class Learner:
  """A2C's learner: one update of policy and value per batch of rollouts."""

  def __init__(self, config, spec):
    """Makes the networks for `spec`, an `acme.specs.EnvironmentSpec`."""
    self._config = config.learner
    self._declaration = policies.make_policy(config.network, spec)
    settings = layers.TorsoSettings.from_config(config.network)
    value = value_network.ValueNetwork(spec, settings)
    self._policy = tf_network.Network(self._declaration, config.seed, "policy")
    self._value = tf_network.Network(value, config.seed, "value")
    self._optimizer = optimizer.Optimizer(
      [*self._policy.trainable_variables, *self._value.trainable_variables],
      optimizer.Settings.from_config(self._config),
    )
    self.steps = tf.Variable(tf.zeros((), tf.int64))

  def update(self, batch):
    """Learns from a batch of B rollouts of T steps; returns `core.Update`."""
    x = batch.data  # a Sequence; each field has a leading [B]
    size, steps = x.first.shape  # B, T + 1
    learned = 1.0 - tf.cast(x.first[:, 1:], tf.float32)  # 0: an autoreset
    with tf.GradientTape() as tape:
      flat = tf.reshape(x.observation, (size * steps, -1))
      values = tf.reshape(self._value(flat), (size, steps))
      found = advantages.generalized_advantages(
        x.reward, x.discount, x.ended, values, lambda_=1.0
      )
      acted = tf.reshape(x.observation[:, :-1], (size * (steps - 1), -1))
      policy = self._declaration.head.distribution(tf_ops, self._policy(acted))
      log_prob = policy.log_prob(tf.reshape(x.action, (size * (steps - 1),)))
      entropy = tf.reduce_mean(policy.entropy())
      weights = tf.reshape(learned * found.advantages, (-1,))
      policy_loss = -tf.reduce_mean(log_prob * weights)
      error = learned * (found.returns - values[:, :-1])
      value_loss = 0.5 * tf.reduce_mean(error**2)
      loss = policy_loss + value_loss - self._config.entropy_weight * entropy
    factor = optimizer.rate_factor(self._config, self.steps)
    rate = self._config.learning_rate * factor
    norm = self._optimizer.minimize(loss, tape, rate)
    with tf.control_dependencies([norm]):
      self.steps.assign_add(1)
    return core.Update({"loss": loss, "entropy": entropy})

  def get_variables(self):
    """Returns the policy's variables by name, for the actors."""
    return self._policy.get_variables()

  @property
  def checkpointed(self):
    """TensorFlow objects by name, whose variables a snapshot saves."""
    return {
      "policy": self._policy,
      "value": self._value,
      "optimizer": self._optimizer,
      "steps": self.steps,
    }


# 3. The builder: table, adder and learner; the actors sample the policy.
class Builder(policies.PolicyBuilder):
  """Builder of A2C: its table, adder and learner."""

  fields = FIELDS

  def check(self, config, spec):
    """Raises ValueError if values of the config contradict each other."""
    rules.check_queue(config)

  def make_table(self, config, spec):
    """Returns the specification of a queue, which samples a rollout once."""
    return table_spec.TableSpec.from_queue_config(
      config, self._schema(config, spec), config.adder.unroll
    )

  def make_adder(self, config, spec):
    """Returns the adder that forms rollouts from a worker's steps."""
    return sequence_adder.SequenceAdder(
      self._schema(config, spec),
      config.topology.environments_per_worker,
      config.adder.unroll,
      config.adder.discount,
    )

  def make_learner(self, config, spec):
    """Returns the learner, which the trainer calls."""
    return Learner(config, spec)

  def _schema(self, config, spec):
    """Returns the schema of a rollout, with each action's log-probability."""
    log_prob = {policies.LOG_PROB: (np.dtype(np.float32), ())}
    return sequences.SequenceSchema(spec, config.adder.unroll, log_prob)
