"""Tests of layers: outputs and gradients equal those of plain definitions."""

import numpy as np
import pytest
import tensorflow as tf

from slipway.agents import devices
from slipway.agents.networks import (
  initializers,
  numpy_ops,
  q_network,
  tf_network,
  tf_ops,
)
from slipway.agents.networks import layers as layers_lib
from slipway.configs import dqn
from tests.environments import given


def make_frames(*shape, seed=0):
  random = np.random.default_rng(seed)
  return random.integers(0, 256, shape, np.uint8)


def plain_frames(frames):
  """Returns pixels in [0, 1], channels last, by a plain definition."""
  return tf.constant(frames.transpose(0, 2, 3, 1) / 255.0, tf.float32)


def assert_near(actual, expected):
  """Checks equality up to the rounding of sums of some thousand terms."""
  expected = np.asarray(expected)
  size = np.abs(expected).max()
  assert size > 0
  np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-5 * size)


@pytest.mark.parametrize(
    "shape", [(2, 4, 84, 84), (1, 1, 36, 36), (3, 2, 37, 39), (2, 3, 42, 41)]
)  # fmt: skip
def test_frames_convolution_equals_its_definition(shape):
  random, frames = np.random.default_rng(0), make_frames(*shape)
  w = tf.Variable(random.normal(size=(8, 8, shape[1], 32)), dtype=tf.float32)
  b = tf.Variable(random.normal(size=32), dtype=tf.float32)
  with tf.GradientTape(persistent=True) as tape:
    actual = tf_ops.frames_conv(tf.constant(frames), w, b)
    expected = tf.nn.conv2d(plain_frames(frames), w, 4, "VALID") + b
    loss = tf.reduce_sum(tf.sin(actual))
    plain_loss = tf.reduce_sum(tf.sin(expected))
  assert_near(actual, expected)
  for variable in (w, b):
    assert_near(
      tape.gradient(loss, variable), tape.gradient(plain_loss, variable)
    )


@pytest.mark.parametrize("gpu", [None, "/gpu:0"])
def test_each_byte_is_divided_by_255_in_all_positions(monkeypatch, gpu):
  # GPUs have other operations, which compute the same on this CPU.
  monkeypatch.setattr(devices, "find_gpu", lambda: gpu)
  # All pairs of bytes are adjacent. Each byte has to arrive unchanged, also if
  # four of them form a denormal, an infinity or a NaN as a float.
  byte = np.arange(256, dtype=np.uint8)
  pairs = np.stack(np.meshgrid(byte, byte), axis=-1)  # [256, 256, 2]
  frames = pairs.reshape(2, 4, 64, 256)
  fours = tf_ops.pixels_in_fours(
    tf.constant(frames)
  ).numpy()  # [2, 64, 64, 4 * 4]
  expected = frames.reshape(2, 4, 64, 64, 4).transpose(0, 2, 3, 1, 4) / 255.0
  np.testing.assert_allclose(
    fours, expected.reshape(fours.shape), rtol=1e-6, atol=0
  )
  assert fours.min() == 0
  assert fours.max() == 1


@pytest.mark.parametrize(
  ("shape", "dtype"),
  [
    ((7, 4, 6), np.uint8),
    ((7, 3), np.uint8),
    ((7, 8), np.float32),
    ((7,), np.int64),
  ],
)
def test_rows_are_taken_in_order(shape, dtype):
  x = np.random.default_rng(0).integers(0, 256, shape).astype(dtype)
  rows = np.array([6, 0, 0, 3], np.int32)
  taken = tf_ops.take_rows(tf.constant(x), tf.constant(rows))
  assert taken.dtype == dtype
  np.testing.assert_array_equal(taken, x[rows])


@pytest.mark.parametrize("inputs", [300, 3_136])
def test_linear_and_its_gradients_equal_their_definition(inputs):
  random = np.random.default_rng(0)
  x, w, b = (
    tf.constant(random.normal(size=shape), tf.float32)
    for shape in ((5, inputs), (inputs, 7), (7,))
  )

  def with_gradients(linear):
    with tf.GradientTape() as tape:
      tape.watch((x, w, b))
      y = linear(x, w, b)
      loss = tf.reduce_sum(0.1 * y * y)
    return y, *tape.gradient(loss, (x, w, b))

  expected = with_gradients(lambda x, w, b: x @ w + b)
  traced = tf.function(with_gradients, autograph=False)
  for function in (with_gradients, traced):
    for found, wanted in zip(function(tf_ops.linear), expected, strict=True):
      assert_near(found, wanted)


def test_relu_and_its_gradient():
  tiny = np.finfo(np.float32).tiny
  x = tf.constant([-np.inf, -2, -tiny, -0.0, 0, tiny, 3, np.inf], tf.float32)
  slope = tf.range(1.0, 9.0)
  with tf.GradientTape() as tape:
    tape.watch(x)
    y = tf_ops.relu(x)
  gradient = tape.gradient(y, x, output_gradients=slope)
  np.testing.assert_array_equal(y, [0, 0, 0, 0, 0, tiny, 3, np.inf])
  np.testing.assert_array_equal(gradient, [0, 0, 0, 0, 0, 6, 7, 8])


def test_standardize_and_its_gradient_equal_their_definition():
  random = np.random.default_rng(0)
  x, slope = (
    tf.constant(random.normal(3.0, 2.0, (5, 7)), tf.float32) for _ in range(2)
  )

  def define(x):
    mean, variance = tf.nn.moments(x, 1, keepdims=True)
    return (x - mean) / tf.sqrt(variance + 1e-5)

  def with_gradient(function):
    with tf.GradientTape() as tape:
      tape.watch(x)
      y = function(x)
    return y, tape.gradient(y, x, output_gradients=slope)

  found, expected = map(with_gradient, (tf_ops.standardize, define))
  for actual, wanted in zip(found, expected, strict=True):
    assert_near(actual, wanted)


@pytest.mark.parametrize("dueling", [False, True])
def test_nature_network_and_its_gradients_equal_their_definition(dueling):
  config = dqn.get_config().network
  config.update(torso="nature_cnn", hidden_sizes=(32,), dueling=dueling)
  config.initializer = "truncated_normal"
  frames = make_frames(2, 4, 84, 84)
  spec = given.spec_of((4, 84, 84), np.uint8, 6)
  network = tf_network.Network(q_network.QNetwork(config, spec), seed=0)
  # With other biases, an input of a ReLU may be so close to 0 that rounding
  # decides on its gradient.
  for i, variable in enumerate(network.variables):
    if len(variable.shape) == 1:
      variable.assign(tf.random.stateless_normal(variable.shape, (0, i)))
  named = {variable.name[:-2]: variable for variable in network.variables}

  def linear(name, x):
    return x @ named[f"{name}/w"] + named[f"{name}/b"]

  def define():
    x = plain_frames(frames)
    for i, stride in enumerate((4, 2, 1)):
      x = tf.nn.conv2d(x, named[f"torso/conv_{i}/w"], stride, "VALID")
      x = tf.nn.relu(x + named[f"torso/conv_{i}/b"])
    x = tf.reshape(x, (2, 7 * 7 * 64))
    hidden = "streams/hidden" if dueling else "advantage/hidden"
    x = tf.nn.relu(linear(hidden, x))
    q = linear("advantage/output", x[:, :32])
    if dueling:
      value = linear("value/output", x[:, 32:])
      q += value - tf.reduce_mean(q, axis=1, keepdims=True)
    return q

  def with_gradients(values):
    with tf.GradientTape() as tape:
      q = values()
      loss = tf.reduce_sum(tf.sin(q))
    return q, *tape.gradient(loss, network.trainable_variables)

  for actual, expected in zip(
    tf.function(with_gradients, autograph=False)(
      lambda: network(tf.constant(frames)).values
    ),
    with_gradients(define),
    strict=True,
  ):
    assert_near(actual, expected)


FRAMES = make_frames(2, 3, 42, 41)
X = np.random.default_rng(5).normal(size=(6, 8)).astype(np.float32)
PRIMITIVES = {
  **{
    name: lambda ops, x, name=name: getattr(ops, name)(x)
    for name in (
      "relu", "tanh", "sigmoid", "softplus", "softmax", "log_softmax", "exp",
      "cos", "sign", "flatten", "float32", "argmax", "shape",
    )
  },
  "log": lambda ops, x: ops.log(x * x),
  "sqrt": lambda ops, x: ops.sqrt(x * x),
  "minimum": lambda ops, x: ops.minimum(x, 0.1),
  "maximum": lambda ops, x: ops.maximum(x, 0.1),
  "clip": lambda ops, x: ops.clip(x, -0.1, 0.1),
  "split": lambda ops, x: ops.split(x, 4)[2],
  "concat": lambda ops, x: ops.concat([x, x]),
  "stack": lambda ops, x: ops.stack([x, x + 1.0], 1),
  "reshape": lambda ops, x: ops.reshape(x, (-1, 2, 4)),
  "swapaxes": lambda ops, x: ops.swapaxes(ops.reshape(x, (-1, 2, 4)), 1, 2),
  "broadcast_to": lambda ops, x: ops.broadcast_to(x[:, :1], ops.shape(x)),
  "mean": lambda ops, x: ops.mean(x, 1, keepdims=True),
  "sum": lambda ops, x: ops.sum(x, -1),
  "standardize": lambda ops, x: ops.standardize(x),
  "one_hot": lambda ops, x: ops.one_hot(ops.argmax(x), 8),
}  # fmt: skip
LAYERS = {
  "linear": lambda layers, x: layers.linear("a", x, 5),
  "noisy": lambda layers, x: layers.noisy_linear("a", x, 5, 0.5, None),
  "layer_norm": lambda layers, x: layers.layer_norm("a", x),
  "mlp": lambda layers, x: layers_lib.mlp(
    layers,
    "a",
    x,
    layers_lib.TorsoSettings(
      "mlp", (5, 3), "tanh", initializers.SCHEMES["orthogonal"]
    ),
  ),
  "conv": lambda layers, x: layers.conv(
    "a", layers.ops.reshape(x, (1, 6, 4, 2)), 3, 2, 2
  ),
  "frames_conv": lambda layers, x: layers.frames_conv(
    "a", FRAMES if layers.ops is numpy_ops else tf.constant(FRAMES), 6
  ),
}


@pytest.mark.parametrize("name", PRIMITIVES)
def test_primitives_agree(name):
  primitive = PRIMITIVES[name]
  found = primitive(numpy_ops, X)
  expected = primitive(tf_ops, tf.constant(X)).numpy()
  np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
  if name != "shape":
    assert found.dtype == expected.dtype


class Variables:
  """Creates each variable in NumPy at its first call, and later returns it."""

  def __init__(self, offset=0.1):
    self.created = {}
    self._random, self._offset = np.random.default_rng(0), np.float32(offset)

  def __call__(self, name, shape, initializer):
    if name not in self.created:
      self.created[name] = initializer(self._random, shape) + self._offset
    assert self.created[name].shape == tuple(shape)
    return self.created[name]


@pytest.mark.parametrize("name", LAYERS)
def test_layers_agree(name):
  variables = Variables()
  found = LAYERS[name](layers_lib.Layers(numpy_ops, variables), X)
  layers = layers_lib.Layers(
    tf_ops, lambda *args: tf.constant(variables(*args))
  )
  expected = LAYERS[name](layers, tf.constant(X))
  assert found.dtype == np.float32
  assert_near(found, expected)


@pytest.mark.parametrize("shape", [(20, 8), (8, 20), (3, 3, 2, 4)])
def test_orthogonal_weights(shape):
  random = np.random.default_rng(0)
  w = initializers.orthogonal(1.5).weights(random, shape)
  w = w.reshape(-1, shape[-1])
  small = w.T @ w if len(w) >= w.shape[1] else w @ w.T
  np.testing.assert_allclose(small, 1.5**2 * np.eye(len(small)), atol=1e-5)


@pytest.mark.parametrize("variable", ["w", "b"])
def test_uniform_weights_and_biases(variable):
  variables = Variables(offset=0)
  layers_lib.Layers(numpy_ops, variables).conv(
    "a", np.zeros((1, 5, 5, 4)), 1_000, 5, 1, initializers.uniform_by_fan_in
  )
  x = variables.created[f"a/{variable}"] * 10
  assert np.abs(x).max() <= 1
  np.testing.assert_allclose(x.std(), 3**-0.5, rtol=0.03)


def test_truncated_normal_weights():
  random = np.random.default_rng(0)
  w = initializers.truncated_normal.weights(random, (5, 5, 4, 1_000)) * 10
  assert np.abs(w).max() <= 2
  # The deviation of a standard normal that is truncated at two deviations.
  np.testing.assert_allclose(w.std(), 0.8796, rtol=0.01)
