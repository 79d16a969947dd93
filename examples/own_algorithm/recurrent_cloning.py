"""Behaviour cloning with a memory, from recorded episodes.

    slipway train --config=examples/own_algorithm/recurrent_cloning.py \\
      --config.dataset.path=FOLDER

docs/own_algorithm.md explains it.
"""

import numpy as np
import tensorflow as tf

from slipway.agents import core, optimizer, policies
from slipway.agents.networks import recurrent, tf_network, tf_ops
from slipway.configs import base, checks, fields, groups, rules
from slipway.replay.items import sequence_adder, sequences
from slipway.replay.tables import table_spec

# 1. The config: shared groups of fields, and the algorithm's own.
FIELDS = {
  **base.FIELDS,
  **groups.POLICY,
  **groups.CORE,
  **groups.LEARNER,
  **groups.DATASET,
  "network.core_size": fields.Field(
    32, "units of the core", checks.at_least(1, "there would be no memory")
  ),
  "adder.unroll": fields.Field(
    40, "steps of a sequence", checks.at_least(1, "nothing to learn")
  ),
}


def get_config():
  """Returns the config of this file, for `--config`."""
  c = fields.make_config(FIELDS)
  c.agent = "recurrent_cloning:Builder"  # the module and the class below
  c.environment.name = "CartPole-v1"
  c.limits.target_return = 475.0
  c.limits.trainer_steps = 5_000
  c.network.core = "gru"
  c.topology.workers = 0  # the episodes are recorded
  c.learner.batch_size = 16  # sequences
  c.learner.steps_per_call = c.variables.publish_period = 50
  c.evaluation.period_steps = 250
  return c


# 2. The learner: TensorFlow, traced once.
class Learner:
  """Maximises the likelihood of the recorded actions, given the past."""

  def __init__(self, config, spec):
    """Makes the network for `spec`, an `acme.specs.EnvironmentSpec`."""
    self._config = config.learner
    self._declaration = policies.make_recurrent_policy(config.network, spec)
    self._policy = tf_network.Network(
      self._declaration, config.seed, policies.POLICY
    )
    self._optimizer = optimizer.Optimizer(
      self._policy.trainable_variables,
      optimizer.Settings.from_config(self._config),
    )
    self.steps = tf.Variable(tf.zeros((), tf.int64))

  def update(self, batch):
    """Learns from a batch of B sequences of T steps; returns `core.Update`."""
    x = batch.data  # a Sequence; each field has a leading [B]
    inputs = recurrent.sequence_inputs(x, tf_ops.concat)
    acted = recurrent.Inputs(*(part[:, :-1] for part in inputs))
    # The core's states were not recorded, so these are 0.
    state = x.extras[recurrent.STATE]
    learned = tf.reshape(1.0 - tf.cast(x.first[:, 1:], tf.float32), (-1,))
    with tf.GradientTape() as tape:
      parameters, _ = self._declaration.unroll(
        self._policy.layers, acted, state
      )
      policy = self._declaration.head.distribution(tf_ops, parameters)
      log_prob = policy.log_prob(tf_ops.merge_batch_and_time(x.action))
      loss = -tf.reduce_sum(learned * log_prob) / tf.reduce_sum(learned)
    rate = self._config.learning_rate * optimizer.rate_factor(
      self._config, self.steps
    )
    norm = self._optimizer.minimize(loss, tape, rate)
    with tf.control_dependencies([norm]):
      self.steps.assign_add(1)
    return core.Update({"loss": loss, "gradient_norm": norm})

  def get_variables(self):
    """Returns the policy's variables by name, for the actors."""
    return self._policy.get_variables()

  @property
  def checkpointed(self):
    """TensorFlow objects by name, whose variables a snapshot saves."""
    return {
      "policy": self._policy,
      "optimizer": self._optimizer,
      "steps": self.steps,
    }


# 3. The builder: the items of recorded episodes, network and learner.
class Builder(policies.PolicyBuilder):
  """Builder of cloning with a memory: its items, network and learner."""

  fields = FIELDS

  def check(self, config, spec):
    """Raises ValueError if values of the config contradict each other."""
    rules.check_dataset(config)

  def make_network(self, config, spec):
    """Returns the declaration of the policy's network, which acts."""
    return policies.make_recurrent_policy(config.network, spec)

  def make_table(self, config, spec):
    """Returns the schema of the items, and the batch size."""
    return table_spec.TableSpec(
      self._schema(config, spec),
      capacity=1,  # the folder is the table
      batch_size=config.learner.batch_size,
      steps_per_item=config.adder.unroll,
    )

  def make_adder(self, config, spec):
    """Returns the adder that forms sequences from the recorded steps."""
    unroll = config.adder.unroll
    return sequence_adder.SequenceAdder(
      self._schema(config, spec),
      config.topology.environments_per_worker,
      period=unroll,
      discount=1.0,
    )

  def make_learner(self, config, spec):
    """Returns the learner, which the trainer calls."""
    return Learner(config, spec)

  def _schema(self, config, spec):
    """Returns the schema of a sequence, with the core's first state."""
    state = self.make_network(config, spec).inputs[-1]
    extras = {recurrent.STATE: (np.dtype(np.float32), state.shape)}
    return sequences.SequenceSchema(
      spec, config.adder.unroll, start_extras=extras
    )
