"""Batches of steps that an algorithm's actor takes in its environment."""

import numpy as np
import tensorflow as tf

from slipway.agents import registry
from slipway.environments import factory
from slipway.replay.tables import dataset


def build(config):
  """Returns the builder of a config's algorithm, and its environment's spec."""
  spec = factory.make_spec(config.environment)
  return registry.make_builder(config.agent), spec


def make_learner(config):
  builder, spec = build(config)
  return builder.make_learner(config, spec)


def make_update(learner):
  """Returns the update as a graph; few updates are faster without one."""
  return tf.function(learner.update, autograph=False)


def collect(config, variables, items):
  """Returns items uint8 [items, ...] of worker 0, which acts by `variables`."""
  num_envs = config.topology.environments_per_worker
  environment = factory.make(config.environment, num_envs, config.seed)
  builder = registry.make_builder(config.agent)
  actor = builder.make_actor(config, environment.spec, worker=0)
  actor.load(variables)
  adder = builder.make_adder(config, environment.spec)
  before, found = environment.reset(), []
  while sum(map(len, found)) < items:
    output = actor.act(before.observation, before.reward, before.first)
    step = environment.step(output.action)
    new = adder.add(
      before.observation,
      output,
      step.reward,
      step.terminated,
      step.truncated,
      step.first,
      step.observation,
      version=1,
    )
    before = step
    if new is not None:
      found.append(new.data())
  environment.close()
  return np.concatenate(found)[:items]


def make_batch(schema, data):
  """Returns a batch of items uint8 [I, ...].

  Its probabilities are those of uniform sampling from 100 items.
  """
  items = len(data)
  return dataset.make_batch(
    schema,
    tf.range(items, dtype=tf.int64),
    tf.fill([items], tf.constant(0.01, tf.float64)),
    tf.fill([items], tf.constant(100, tf.int64)),
    tf.constant(data.reshape(items, *schema.item_shape)),
  )


def collect_batch(config, variables, items):
  """Returns a batch of `collect`, for the config's own table."""
  builder, spec = build(config)
  table = builder.make_table(config, spec)
  return make_batch(table.schema, collect(config, variables, items))


def _get_variables(learner):
  """Returns all variables of a learner by name, in a fixed order."""
  found = {}
  for name, tracked in sorted(learner.checkpointed.items()):
    items = tracked if isinstance(tracked, list) else [tracked]
    for i, item in enumerate(items):
      variables = [item] if isinstance(item, tf.Variable) else item.variables
      for j, variable in enumerate(variables):
        found[f"{name}/{i}/{j}"] = variable
  return found


def get_values(learner):
  """Returns a copy of all variables of a learner, in a fixed order."""
  return {name: x.numpy() for name, x in _get_variables(learner).items()}


def update_on_each(learner, batches):
  """Updates on each batch, each time from the same variables, without a graph.

  Returns:
    All variables and metrics after the update on each batch, by name.
  """
  start, found = get_values(learner), []
  for batch in batches:
    for name, variable in _get_variables(learner).items():
      variable.assign(start[name])
    metrics = learner.update(batch).metrics
    found.append({**get_values(learner), **metrics})
  return found


def restore(learner, other, folder):
  """Restores `other` from a checkpoint of `learner`; returns `other`."""
  path = str(folder / "checkpoint")
  tf.train.Checkpoint(**learner.checkpointed).write(path)
  checkpoint = tf.train.Checkpoint(**other.checkpointed)
  checkpoint.read(path).assert_consumed()
  return other
