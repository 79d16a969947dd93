"""Layers: what they compute, and their gradients, equal the plain ones'."""

import ml_collections
import numpy as np
import pytest
import sonnet as snt
import tensorflow as tf

from agents.networks import layers, q_network


def make_frames(*shape, seed=0):
  random = np.random.default_rng(seed)
  return random.integers(0, 256, shape, np.uint8)


def plain_frames(frames):
  """Pixels 0 to 1, channels last, from their definition."""
  return tf.constant(frames.transpose(0, 2, 3, 1) / 255.0, tf.float32)


def assert_near(actual, expected):
  """Equal to the rounding of sums of some thousand terms."""
  expected = np.asarray(expected)
  size = np.abs(expected).max()
  assert size > 0
  np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-5 * size)


@pytest.mark.parametrize(
    "shape", [(2, 4, 84, 84), (1, 1, 36, 36), (3, 2, 37, 39), (2, 3, 42, 41)]
)  # fmt: skip
def test_frames_convolution_equals_sonnets(shape):
  frames, layer = make_frames(*shape), layers.FramesConvolution(32, "conv")
  plain, x = snt.Conv2D(32, 8, 4, padding="VALID"), plain_frames(frames)
  layer(tf.constant(frames))
  plain(x)
  layer.b.assign(tf.random.normal([32]))
  plain.w.assign(layer.w)
  plain.b.assign(layer.b)

  with tf.GradientTape(persistent=True) as tape:
    actual = layer(tf.constant(frames))
    expected = plain(x)
    loss = tf.reduce_sum(tf.sin(actual))
    plain_loss = tf.reduce_sum(tf.sin(expected))
  assert_near(actual, expected)
  for variable, other in ((layer.w, plain.w), (layer.b, plain.b)):
    assert_near(tape.gradient(loss, variable), tape.gradient(plain_loss, other))


def test_every_byte_becomes_its_255th_wherever_it_stands():
  # All pairs of bytes stand side by side: whatever four of them are as a
  # float (a denormal, an infinity, a NaN), they arrive unchanged.
  byte = np.arange(256, dtype=np.uint8)
  pairs = np.stack(np.meshgrid(byte, byte), axis=-1)  # [256, 256, 2]
  frames = pairs.reshape(2, 4, 64, 256)
  fours = layers._fours(tf.constant(frames)).numpy()  # [2, 64, 64, 4 * 4]
  expected = frames.reshape(2, 4, 64, 64, 4).transpose(0, 2, 3, 1, 4) / 255.0
  np.testing.assert_allclose(
    fours, expected.reshape(fours.shape), rtol=1e-6, atol=0
  )
  assert fours.min() == 0
  assert fours.max() == 1


def test_wide_linear_equals_sonnets():
  random = np.random.default_rng(0)
  x = tf.constant(random.normal(size=(5, 300)), tf.float32)
  layer, plain = layers.WideLinear(7, "wide"), snt.Linear(7)
  layer(x)
  plain(x)
  layer.b.assign(random.normal(size=7))
  plain.w.assign(layer.w)
  plain.b.assign(layer.b)

  def with_gradients(module):
    with tf.GradientTape() as tape:
      tape.watch(x)
      y = module(x)
      loss = tf.reduce_sum(tf.sin(y))
    return y, *tape.gradient(loss, (x, module.w, module.b))

  for function in (with_gradients, tf.function(with_gradients)):
    for actual, expected in zip(
      function(layer), with_gradients(plain), strict=True
    ):
      assert_near(actual, expected)


def test_relu_and_its_gradient():
  tiny = np.finfo(np.float32).tiny
  x = tf.constant([-np.inf, -2, -tiny, -0.0, 0, tiny, 3, np.inf], tf.float32)
  slope = tf.range(1.0, 9.0)
  with tf.GradientTape() as tape:
    tape.watch(x)
    y = layers.relu(x)
  gradient = tape.gradient(y, x, output_gradients=slope)
  np.testing.assert_array_equal(y, [0, 0, 0, 0, 0, tiny, 3, np.inf])
  np.testing.assert_array_equal(gradient, [0, 0, 0, 0, 0, 6, 7, 8])


@pytest.mark.parametrize("layer", [
    (layers.FramesConvolution(8, "a"), snt.Conv2D(8, 8, 4, padding="VALID"),
     (1, 2, 36, 36), (1, 36, 36, 2)),
    (layers.WideLinear(8, "b"), snt.Linear(8), (1, 50), (1, 50)),
], ids=["frames", "wide"])  # fmt: skip
def test_variables_start_as_sonnets(layer):
  module, plain, shape, plain_shape = layer
  tf.random.set_seed(3)
  module(tf.zeros(shape, tf.uint8 if len(shape) == 4 else tf.float32))
  tf.random.set_seed(3)
  plain(tf.zeros(plain_shape))
  np.testing.assert_array_equal(module.w, plain.w)
  np.testing.assert_array_equal(module.b, plain.b)
  assert [v.name.split("/")[-1] for v in module.variables] == ["b:0", "w:0"]


@pytest.mark.parametrize("dueling", [False, True])
def test_nature_network_and_its_gradients_equal_their_definition(dueling):
  config = ml_collections.ConfigDict(
    {
      "torso": "nature_cnn",
      "hidden_sizes": (32,),
      "dueling": dueling,
      "head": "expected",
      "noisy": False,
    }
  )
  frames = make_frames(2, 4, 84, 84)
  network = q_network.QNetwork(config, num_actions=6)
  network(tf.constant(frames))  # makes the variables
  for variable in network.variables:
    if len(variable.shape) == 1:
      variable.assign(tf.random.normal(variable.shape))
  named = {
    variable.name.split("/", 1)[1][:-2]: variable
    for variable in network.variables
  }

  def stream(name, x):
    for layer in ("hidden", "output"):
      x = x @ named[f"{name}/{layer}/w"] + named[f"{name}/{layer}/b"]
      if layer == "hidden":
        x = tf.nn.relu(x)
    return x

  def define():
    x = plain_frames(frames)
    for i, stride in enumerate((4, 2, 1)):
      x = tf.nn.conv2d(x, named[f"torso/conv_{i}/w"], stride, "VALID")
      x = tf.nn.relu(x + named[f"torso/conv_{i}/b"])
    x = tf.reshape(x, (2, 7 * 7 * 64))
    q = stream("advantage", x)
    if dueling:
      q += stream("value", x) - tf.reduce_mean(q, axis=1, keepdims=True)
    return q

  def with_gradients(values):
    with tf.GradientTape() as tape:
      q = values()
      loss = tf.reduce_sum(tf.sin(q))
    return q, *tape.gradient(loss, network.trainable_variables)

  for actual, expected in zip(
    tf.function(with_gradients)(
      lambda: network(tf.constant(frames)).numbers[..., 0]
    ),
    with_gradients(define),
    strict=True,
  ):
    assert_near(actual, expected)
