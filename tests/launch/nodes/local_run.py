"""Makes a run's worker and trainer on in-process ports, for tests."""

import dataclasses
import typing

import ml_collections
import numpy as np
import tensorflow as tf

from slipway.agents import core, registry
from slipway.agents.updates import local_updates
from slipway.configs import dqn, ppo
from slipway.environments import factory, vector
from slipway.launch.control import messages
from slipway.launch.control import rates as rates_lib
from slipway.launch.nodes import local_ports, trainer, worker
from slipway.replay.tables import local_table


def make_config(mode: str = "async", **replay: typing.Any):
  """Returns a config of DQN with a small network.

  Args:
    mode: the run's mode.
    **replay: changed fields of section `replay`.
  """
  config = dqn.get_config()
  config.mode = mode
  config.network.hidden_sizes = (8,)
  config.adder.n_step = 1
  config.topology.update(workers=1, environments_per_worker=4)
  config.replay.update(
    {"min_size": 20, "capacity": 500, "samples_per_insert": 8.0, **replay}
  )
  config.learner.update(batch_size=16, steps_per_call=4)
  config.variables.publish_period = 3
  return config


def make_queue_config(mode: str = "sync"):
  """Returns a config of PPO with a small network.

  A batch has 4 rollouts of 8 steps.
  """
  config = ppo.get_config()
  config.mode = mode
  config.network.hidden_sizes = (8,)
  config.topology.update(workers=1, environments_per_worker=4)
  config.adder.unroll = 8
  config.learner.update(batch_size=4, minibatch_size=16, epochs=2)
  return config


class CountingLearner:
  """A learner whose only variable is the number of its updates."""

  def __init__(self):
    self.steps = tf.Variable(0, dtype=tf.int64)
    self.checkpointed = {"steps": self.steps}

  def update(self, batch) -> core.Update:
    self.steps.assign_add(1)
    return core.Update({"steps": tf.cast(self.steps, tf.float32)})

  def get_variables(self) -> dict[str, np.ndarray]:
    return {"steps": self.steps.numpy()[np.newaxis]}


@dataclasses.dataclass
class LocalRun:
  """A run's in-process ports, and methods that make the nodes on them."""

  config: ml_collections.ConfigDict
  learner: core.Learner | None = None  # None: the config's learner

  def __post_init__(self):
    config = self.config
    self.spec = factory.make_spec(config.environment)
    self.builder = registry.make_builder(config.agent)
    self.rates = rates_lib.Rates.from_config(config, self.spec)
    self.table = local_table.make_table(self.rates.table, config.seed)
    self.schema = self.rates.table.schema
    self.sink = local_ports.LocalSink(self.table)
    self.variables = local_ports.LocalVariables()
    if self.learner is None:
      self.learner = self.builder.make_learner(config, self.spec)

  def make_worker(
    self,
    environment: vector.VectorEnvironment | None = None,
    **registration: int,
  ) -> worker.Worker:
    """Makes the worker.

    Args:
      environment: the worker's environments; None: those of the config.
      **registration: counts of the worker's earlier incarnations.
    """
    return worker.Worker(
      self.config,
      self.spec,
      self.builder,
      self.rates,
      0,
      self.sink,
      self.variables.make_source(),
      messages.Registration(**registration),
      environment,
    )

  def make_trainer(self, version: int | None = None) -> trainer.Trainer:
    """Makes the trainer, whose updates are due by the table's counts.

    Args:
      version: newest version that is already published; None: none is.
    """
    is_due = self.rates.is_update_due
    if self.rates.in_rounds:
      batch_size = self.rates.table.batch_size
      is_due = lambda status: status.size >= batch_size  # noqa: E731
    updates = local_updates.LocalUpdates(
      self.learner,
      self.rates.table,
      self.table,
      is_due,
    )
    return trainer.Trainer(
      self.config, self.rates, self.learner, updates, self.variables, version
    )

  def publish(self) -> int:
    """Publishes the learner's variables, as a trainer would."""
    return self.variables.publish(self.learner.get_variables())
