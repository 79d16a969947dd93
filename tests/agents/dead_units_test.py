"""Tests of dead units: ReLUs whose outputs are 0 for a whole batch."""

import functools

import numpy as np
import pytest
import tensorflow as tf

from slipway.agents import dead_units
from slipway.agents.networks import tf_network
from slipway.configs import catalog
from tests.agents import collected


def make_learner(name, **network):
  config = catalog.algorithms()[name].get_config()
  config.network.update({"hidden_sizes": (16, 16), **network})
  config.replay.transitions_per_item = 1
  config.learner.batch_size = 32
  if "unroll" in config.adder:
    # The graph of a recurrent network repeats its operations for each step.
    config.adder.unroll = 6
  if "burn_in" in config.adder:
    config.adder.update({"burn_in": 2, "period": 3})
  if "minibatch_size" in config.learner:
    config.learner.update({"minibatch_size": 32 * 6, "epochs": 1})
  builder, spec = collected.build(config)
  learner = builder.make_learner(config, spec)
  table = builder.make_table(config, spec)
  data = collected.collect(config, learner.get_variables(), 32)
  return learner, collected.make_batch(table.schema, data)


def kill_units(network: tf_network.Network, layer: str, units: int):
  """Sets biases so that the first units of a layer are 0 for all inputs."""
  values = network.get_variables()
  for name in values:
    if name.endswith(f"{layer}/b"):
      values[name][:units] = -1e6
  network.load(values)


def find_metric(learner, batch):
  update = tf.function(learner.update, autograph=False)
  return float(update(batch).metrics[dead_units.NAME])


@pytest.mark.parametrize("name", ["dqn", "iqn"])
def test_dead_units_of_value_learners_are_counted(name):
  learner, batch = make_learner(name)
  alive = learner.online.compute_dead_units(batch.data.o_tm1).numpy()
  assert 0.0 <= alive < 0.5
  kill_units(learner.online, "torso/linear_0", 16)
  assert find_metric(learner, batch) > max(alive, 0.2)


@pytest.mark.parametrize(
  ("name", "network", "killed"),
  [
    ("r2d2", {"core_size": 8, "dueling": True}, None),
    ("muzero", {}, None),
    ("ppo", {"activation": "relu"}, None),
    ("a2c", {"activation": "relu", "shared": True, "core_size": 8}, None),
    ("sac", {}, "policy"),
    ("sac", {}, "critics"),
  ],
)
def test_dead_units_of_all_layers_are_counted(name, network, killed):
  learner, batch = make_learner(name, **network)
  for part, trained in learner.checkpointed.items():
    if isinstance(trained, tf_network.Network) and killed in (None, part):
      for layer in ("linear_0", "linear_1", "streams/hidden"):
        kill_units(trained, layer, 32)
  assert find_metric(learner, batch) == 1.0


def test_all_units_have_equal_weight():
  learner, batch = make_learner("ddpg")
  network, observation = learner.checkpointed["policy"], batch.data.o_tm1
  before = network.compute_dead_units(observation).numpy()
  kill_units(network, "linear_1", 8)  # 8 of 32 units
  found = network.compute_dead_units(observation).numpy()
  assert max(before, 0.25) <= found <= before + 0.25


def test_a_network_without_relus_has_no_dead_units():
  learner, batch = make_learner("ddpg", activation="tanh")
  assert find_metric(learner, batch) == 0.0


def test_the_newest_measurement_is_kept():
  metric = dead_units.DeadUnitsMetric()
  fraction = tf.Variable(0.25)
  steps = tf.Variable(0, dtype=tf.int64)

  @functools.partial(tf.function, autograph=False)
  def update():
    return metric.update(steps, fraction.read_value)

  found = []
  for step, value in ((0, 0.25), (1, 0.5), (499, 0.5), (500, 0.75), (501, 1)):
    steps.assign(step)
    fraction.assign(value)
    found.append(update().numpy())
  np.testing.assert_array_equal(found, [0.25, 0.25, 0.25, 0.75, 0.75])
