"""Policy lag: what learns from rollouts of policies that are 20 versions old."""

import collections

import pytest
import tensorflow as tf

from slipway.agents import registry
from slipway.configs import a2c, appo, impala
from slipway.environments import factory
from slipway.launch.nodes import collector
from tests.agents import collected

pytestmark = [pytest.mark.learning, pytest.mark.timeout(900)]

LAG = 20  # versions
STEPS = 120_000  # environment steps


def train(config, lag):
  """Mean training returns, one after each tenth of the steps."""
  config.mode = "async"
  config.topology.workers = 1
  config.topology.environments_per_worker = config.learner.batch_size
  spec = factory.make_spec(config.environment)
  builder = registry.make_builder(config.agent)
  learner = builder.make_learner(config, spec)
  update = tf.function(learner.update, autograph=False)
  schema = builder.make_table(config, spec).schema
  worker = collector.Collector(config, spec, builder, 0, 0, 0)
  versions = collections.deque(maxlen=lag + 1)
  returns, rollouts = [], 0
  while worker.env_steps < STEPS:
    versions.append(learner.get_variables())
    worker.load(int(learner.steps) + 1, versions[0])
    while (items := worker.step()) is None:
      pass
    update(collected.make_batch(schema, items.data()))
    if worker.env_steps >= STEPS * (len(returns) + 1) / 10:
      returns.append(worker.training_return)
    rollouts += 1
  worker.close()
  return returns


def make(module, seed):
  config = module.get_config()
  config.seed = seed
  return config


if __name__ == "__main__":
  import sys

  for name, module in (("a2c", a2c), ("impala", impala), ("appo", appo)):
    for lag in (0, LAG):
      for seed in map(int, sys.argv[1:]):
        print(
          name,
          lag,
          seed,
          [int(x) for x in train(make(module, seed), lag)],
          flush=True,
        )
