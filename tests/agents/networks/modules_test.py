"""Tests of torsos that are TensorFlow modules of the user's."""

import random

import numpy as np
import onnxruntime
import pytest
import sonnet as snt
import tensorflow as tf

from slipway.agents.networks import network as network_lib
from slipway.agents.networks import (
  onnx_export,
  q_network,
  tf_network,
  torsos,
)
from slipway.configs import catalog, dqn
from tests.agents import collected
from tests.environments import given, shaped


class Layer(tf.keras.layers.Layer):
  """A Keras layer with a dropout and statistics, which are not updated."""

  def __init__(self):
    super().__init__()
    self.dense = tf.keras.layers.Dense(8, activation="relu")
    self.norm = tf.keras.layers.BatchNormalization()
    self.dropout = tf.keras.layers.Dropout(0.5)

  def call(self, x):
    return self.dropout(self.norm(self.dense(x)))


class Plain(tf.Module):
  """A module that makes its variable when it is first called."""

  def __init__(self):
    super().__init__()
    self.w = None

  def __call__(self, x):
    if self.w is None:
      self.w = tf.Variable(tf.random.normal((x.shape[-1], 6)))
    return tf.nn.relu(tf.cast(x, tf.float32) @ self.w)


def functional():
  inputs = tf.keras.Input((4,))
  return tf.keras.Model(inputs, tf.keras.layers.Dense(7)(inputs))


def sonnet():
  return snt.nets.MLP([8, 8])


def cnn():
  return tf.keras.Sequential(
    [
      tf.keras.layers.Rescaling(1 / 255),
      tf.keras.layers.Conv2D(4, 3, activation="relu"),
    ]
  )


# Torsos, and the shapes and types of their observations.
TORSOS = {
  "Layer": ((4,), np.float32),
  "Plain": ((4,), np.float32),
  "functional": ((4,), np.float32),
  "sonnet": ((4,), np.float32),
  "cnn": ((10, 10, 4), np.uint8),
}


class Failing(tf.keras.Model):
  def call(self, x):
    return tf.reshape(x, (-1, 3))  # in the middle of the batch


class Unbatched(tf.Module):
  def __call__(self, x):
    return tf.reduce_sum(x, axis=0, keepdims=True)


class Branching(tf.Module):
  def __call__(self, x):
    return x if tf.reduce_sum(x) > 0 else 2 * x


class Late(tf.Module):
  def __init__(self):
    super().__init__()
    self.calls, self.w = 0, None

  def __call__(self, x):
    self.calls += 1
    if self.calls == 2:
      self.w = tf.Variable(1.0)
    return x


class Half(tf.Module):
  def __init__(self):
    super().__init__()
    self.w = tf.Variable(tf.zeros((4, 2), tf.float16))

  def __call__(self, x):
    return tf.cast(x, tf.float16) @ self.w


def nothing():
  return None


def declare(torso, normalized=False):
  """Returns the declaration of a Q-network with a torso of this file."""
  spec = given.spec_of(*TORSOS[torso])
  config = dqn.get_config().network
  config.update({"torso": f"{__name__}:{torso}", "hidden_sizes": (8,)})
  torsos.check(config, spec)
  return q_network.QNetwork(config, spec, normalized)


def observe(torso, batch=5):
  shape, dtype = TORSOS[torso]
  values = np.random.default_rng(0).uniform(-3, 200, (batch, *shape))
  return values.astype(dtype)


@pytest.mark.parametrize("torso", TORSOS)
def test_initial_values_depend_on_seed_and_name(torso):
  declaration = declare(torso)
  random.seed(3)
  np.random.seed(3)  # noqa: NPY002
  before = random.getstate(), np.random.get_state()[1]  # noqa: NPY002
  first, same, other, named = (
    tf_network.Network(declaration, *args).get_variables()
    for args in ((1,), (1,), (2,), (1, "critic"))
  )
  assert random.getstate() == before[0]
  np.testing.assert_array_equal(np.random.get_state()[1], before[1])  # noqa: NPY002
  shapes = {name: x.shape for name, x in first.items()}
  assert shapes == network_lib.variable_shapes(declaration)
  assert "torso/module/0" in shapes
  for name, value in first.items():
    np.testing.assert_array_equal(same[name], value)
    if name.startswith("torso/module") and value.std():  # no bias
      assert (other[name] != value).any()
      assert (named[f"critic/{name}"] != value).any()


@pytest.mark.parametrize("torso", TORSOS)
def test_acting_and_exported_values_equal_the_learned(torso, tmp_path):
  declaration, x = declare(torso), observe(torso)
  assert not declaration.prefers_numpy
  network = tf_network.Network(declaration, seed=1)
  for variable in network.variables:
    variable.assign_add(
      0.1 * tf.random.stateless_normal(variable.shape, (1, 2))
    )
  variables = network.get_variables()
  acting = network_lib.make_acting(declaration)
  acting.load(variables)
  wanted = network(tf.constant(x)).values
  np.testing.assert_allclose(acting(x).values, wanted, rtol=1e-4, atol=1e-4)
  path = str(tmp_path / "policy.onnx")
  onnx_export.export(path, declaration, variables, lambda ops, x: x, {})
  session = onnxruntime.InferenceSession(path)
  (action,) = session.run(["action"], {"observation": x})
  np.testing.assert_array_equal(action, np.argmax(wanted, axis=1))


@pytest.mark.parametrize("torso", TORSOS)
def test_a_checkpoint_has_all_variables(torso, tmp_path):
  declaration = declare(torso)
  saved, restored = (tf_network.Network(declaration, seed) for seed in (1, 2))
  path = tf.train.Checkpoint(network=saved).write(str(tmp_path / "saved"))
  found = {name for name, _ in tf.train.list_variables(path)}
  assert len([x for x in found if "_variables" in x]) == len(saved.variables)
  tf.train.Checkpoint(network=restored).read(path).assert_consumed()
  for name, value in saved.get_variables().items():
    np.testing.assert_array_equal(restored.get_variables()[name], value)


@pytest.mark.parametrize(
  ("torso", "words"),
  [
    ("Failing", r"fails on .*\[2, 4\] \(InvalidArgumentError: .*8 values"),
    ("Unbatched", r"returns \[1, 4\] for a batch of 2"),
    ("Branching", "OperatorNotAllowedInGraphError"),
    ("Late", "a later call than the first one makes variables"),
    ("Half", "variables are float16, not float32"),
    ("nothing", "NoneType is no tf.Module"),
  ],
)
def test_a_bad_module_is_one_line(torso, words):
  config = dqn.get_config().network
  config.torso = f"{__name__}:{torso}"
  with given.one_line(match=words):
    torsos.check(config, given.spec_of((4,)))


def test_the_start_names_the_cost_of_acting():
  advice = torsos.advise(f"{__name__}:Plain", given.spec_of())
  assert "0.2 ms per call" in advice and "\n" not in advice


def make_config(name, **kwargs):
  config = catalog.algorithms()[name].get_config("cartpole")
  config.network.update({"torso": f"{__name__}:Plain", "hidden_sizes": (16,)})
  config.topology.environments_per_worker = 4
  config.normalization.observations = True
  config.learner.batch_size = 8
  if "averaging" in config.learner:
    config.learner.averaging = 0.0  # actors get the newest network
  if name == "r2d2":
    config.network.update({"core_size": 8})
    config.adder.update({"burn_in": 2, "unroll": 4, "period": 3})
  if name == "ppo":
    config.learner.update({"epochs": 2, "batch_size": 4, "minibatch_size": 8})
    config.adder.unroll = 8
  config.environment.update(shaped.config_of(**kwargs))
  return config


@pytest.mark.parametrize(
  "name", ["dqn", "r2d2", "muzero", "ppo", "sac", "rainbow"]
)
def test_learners_train_and_restore_modules(name, tmp_path):
  config = make_config(name, masked=name != "r2d2")
  builder, spec = collected.build(config)
  builder.check(config, spec)
  learner = collected.make_learner(config)
  before = learner.get_variables()
  names = [x for x in before if "torso/module/" in x]
  items = builder.make_table(config, spec).batch_size
  batch = collected.collect_batch(config, before, items)
  learner.update(batch)
  after = learner.get_variables()
  assert names and all((before[x] != after[x]).any() for x in names)
  other = collected.make_learner(config)
  for key, value in other.get_variables().items():
    if key in names:  # equal for a seed, whatever was made before
      np.testing.assert_array_equal(value, before[key])
  collected.restore(learner, other, tmp_path)
  learner.update(batch)
  other.update(batch)
  wanted = collected.get_values(learner)
  for key, value in collected.get_values(other).items():
    np.testing.assert_array_equal(value, wanted[key])


@pytest.mark.parametrize("name", ["dqn", "sac"])
def test_targets_start_equal_and_follow(name):
  config = make_config(name)
  learner = collected.make_learner(config)
  pairs = {"dqn": ("online", "target"), "sac": ("encoder", "target_encoder")}
  online, target = (learner.checkpointed[x] for x in pairs[name])
  for one, other in zip(online.variables, target.variables, strict=True):
    np.testing.assert_array_equal(one, other)
    assert one is not other
