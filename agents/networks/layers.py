"""Layers as fast as a CPU allows: the same sums, arranged for oneDNN.

Times are of one core, an update of the Nature CNN at batch 32 where nothing
else is said; docs/libraries.md has the whole table.
"""

import math
import typing

import sonnet as snt
import tensorflow as tf

# What a function returns that `tf.custom_gradient` makes one of a tensor: that
# and its gradient. Neither the wrapper nor its stub says so.
Differentiable = typing.Any

_SIZE, _STRIDE = 8, 4  # pixels; Mnih et al. 2015, methods, first convolution
_APART = 1 << 20  # seeds of a call's numbers, from one to the next


@tf.custom_gradient
def relu(x: tf.Tensor) -> Differentiable:
  """max(x, 0) of any shape.

  TensorFlow's own gradient is not vectorized: 0.70 ms, and a tenth of an
  update of an MLP 256-256. The product with a sign is, and takes 0.26 ms.
  """
  y = tf.nn.relu(x)
  return y, lambda dy: dy * tf.sign(y)


class WideLinear(snt.Module):
  """A linear layer of many more inputs than items in a batch."""

  def __init__(self, outputs: int, name: str):
    """Makes the layer, its variables at the first call."""
    super().__init__(name=name)
    self._outputs = outputs

  def __call__(self, x: tf.Tensor) -> tf.Tensor:
    """Outputs [B, outputs] of x [B, F]."""
    self._initialize(_shape(x)[1])
    return tf.nn.bias_add(_wide_product(x, self.w), self.b)

  @snt.once
  def _initialize(self, inputs: int) -> None:
    self.w = _weights((inputs, self._outputs), inputs)
    self.b = _biases(self._outputs)


class Noise:
  """Random numbers of one call of a network, the same for the same seed."""

  def __init__(self, seed: tf.Tensor | None):
    """Has drawn none.

    Args:
      seed: int32 [2]; None: there is no noise.
    """
    self._seed, self._drawn = seed, 0

  def normal(self, size: int) -> tf.Tensor | None:
    """float32 [size], or None."""
    return self._draw(tf.random.stateless_normal, (size,))

  def uniform(self, shape: tuple[typing.Any, ...]) -> tf.Tensor | None:
    """float32 in [0, 1), or None."""
    return self._draw(tf.random.stateless_uniform, shape)

  def _draw(self, draw: typing.Any, shape: typing.Any) -> tf.Tensor | None:
    if self._seed is None:
      return None
    self._drawn += 1
    return draw(shape, self._seed + tf.constant([self._drawn * _APART, 0]))


class NoisyLinear(snt.Module):
  """A linear layer whose weights are drawn, anew at each call.

  w = mean + std f(e_in) f(e_out)^T, b = mean + std f(e_out), with
  f(x) = sign(x) sqrt(|x|) and normal e: Fortunato et al. 2018, "Noisy networks
  for exploration" (https://arxiv.org/abs/1706.10295), equations 9 to 11 and
  section 3.2, factorised. One draw serves a batch.
  """

  def __init__(self, outputs: int, name: str, std: float, wide: bool = False):
    """Makes the layer, its variables at the first call.

    Args:
      outputs: its size.
      name: prefix of the variables.
      std: sigma_0, of which the first standard deviations are 1 / sqrt(F).
      wide: it has many more inputs than a batch has items.
    """
    super().__init__(name=name)
    self._outputs, self._std = outputs, std
    self._product = _wide_product if wide else tf.matmul

  def __call__(self, x: tf.Tensor, noise: Noise) -> tf.Tensor:
    """Outputs [B, outputs] of x [B, F]; the means' where there is no noise."""
    inputs = _shape(x)[1]
    self._initialize(inputs)
    drawn = noise.normal(inputs + self._outputs)
    w, b = self.w, self.b
    if drawn is not None:
      f_in, f_out = tf.split(_signed_root(drawn), (inputs, self._outputs))
      w = w + self.w_std * (f_in[:, None] * f_out)
      b = b + self.b_std * f_out
    return tf.nn.bias_add(self._product(x, w), b)

  @snt.once
  def _initialize(self, inputs: int) -> None:
    bound = 1 / math.sqrt(inputs)  # section 3.2, as are the standard deviations
    start = snt.initializers.RandomUniform(-bound, bound)
    shape = (inputs, self._outputs)
    self.w = tf.Variable(start(shape, tf.float32), name="w")
    self.b = tf.Variable(start(shape[1:], tf.float32), name="b")
    std = self._std * bound
    self.w_std = tf.Variable(tf.fill(shape, std), name="w_std")
    self.b_std = tf.Variable(tf.fill(shape[1:], std), name="b_std")


def call(layer: snt.Module, x: tf.Tensor, noise: Noise) -> tf.Tensor:
  """The outputs of a layer, with noise where it takes any."""
  if isinstance(layer, NoisyLinear):
    return layer(x, noise)
  return layer(x)  # pyright: ignore[reportCallIssue]


class FramesConvolution(snt.Module):
  """The first convolution, 8x8 pixels at stride 4, of frames as bytes.

  Frames come one after the other; CPUs convolve with channels last. Four
  pixels in a row are moved as one number, and become four channels of each
  frame, for a kernel of 8x2 at stride 4x1. Transposing and casting the two
  observations of an update takes 1.8 ms by pixels, this 0.6 ms. (The kernel of
  8x8 on pixels that oneDNN has cast and transposed: 0.2 ms more an update.)
  """

  def __init__(self, channels: int, name: str):
    """Makes the layer, its variables at the first call."""
    super().__init__(name=name)
    self._channels = channels

  def __call__(self, frames: tf.Tensor) -> tf.Tensor:
    """Convolves pixels as numbers from 0 to 1.

    Args:
      frames: uint8 [B, stack, height, width].

    Returns:
      [B, height / 4 - 1, width / 4 - 1, channels], of whole fours of pixels.
    """
    self._initialize(_shape(frames)[1])
    shape = (_SIZE, _SIZE // _STRIDE, _STRIDE, -1, self._channels)
    kernel = tf.transpose(tf.reshape(self.w, shape), (0, 1, 3, 2, 4))
    fours = _fours(frames)
    kernel = tf.reshape(
      kernel, (_SIZE, _SIZE // _STRIDE, fours.shape[3], self._channels)
    )
    x = tf.nn.conv2d(fours, kernel, (_STRIDE, 1), "VALID")
    return tf.nn.bias_add(x, self.b)

  @snt.once
  def _initialize(self, stack: int) -> None:
    shape = (_SIZE, _SIZE, stack, self._channels)
    self.w = _weights(shape, _SIZE * _SIZE * stack)
    self.b = _biases(self._channels)


def _fours(frames: tf.Tensor) -> tf.Tensor:
  """Floats from 0 to 1 [B, height, width / 4, stack * 4] of `frames`."""
  _, stack, height, width = _shape(frames)
  columns = width // _STRIDE
  frames = frames[:, :, :, : columns * _STRIDE]
  pixels = tf.reshape(frames, (-1, stack, height, columns, _STRIDE))
  # Floats though they are none: those are what oneDNN transposes, at twice the
  # speed of integers. Nothing computes with them, and all bits stay.
  fours = tf.transpose(tf.bitcast(pixels, tf.float32), (0, 2, 3, 1))
  pixels = tf.bitcast(fours, tf.quint8)
  pixels = tf.reshape(pixels, (-1, height, columns, stack * _STRIDE))
  # oneDNN's cast and product, at a fourth of the time of `tf.cast` alone.
  return tf.quantization.dequantize(pixels, 0.0, 1.0, mode="SCALED")


@tf.custom_gradient
def _wide_product(x: tf.Tensor, w: tf.Tensor) -> Differentiable:
  """x w, with the larger matrix first in its gradient.

  d_y transposed(w), as TensorFlow has it, takes 0.94 ms for 3136 inputs and
  512 outputs, transposed(w transposed(d_y)) 0.60 ms.
  """

  def gradient(dy: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    dx = tf.transpose(tf.matmul(w, dy, transpose_b=True))
    return dx, tf.matmul(x, dy, transpose_a=True)

  return tf.matmul(x, w), gradient


def _signed_root(x: tf.Tensor) -> tf.Tensor:
  return tf.sign(x) * tf.sqrt(tf.abs(x))


def _shape(x: tf.Tensor) -> tuple[int, ...]:
  """Of which all is known but, maybe, the size of the batch."""
  return typing.cast(tuple[int, ...], tuple(x.shape))


def _weights(shape: tuple[int, ...], fan_in: int) -> tf.Variable:
  """As Sonnet's layers start."""
  initializer = snt.initializers.TruncatedNormal(stddev=1 / math.sqrt(fan_in))
  return tf.Variable(initializer(shape, tf.float32), name="w")


def _biases(outputs: int) -> tf.Variable:
  return tf.Variable(tf.zeros(outputs), name="b")
