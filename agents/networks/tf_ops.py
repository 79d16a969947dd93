"""Operations of networks in TensorFlow, with the functions of `numpy_ops`.

The operations are chosen for oneDNN's fast paths on CPUs, and exist on GPUs,
too. Times in this module are for one core and, unless stated otherwise, for one
update of the Nature CNN with batches of 32; benchmarks/results/libraries.md
has the whole table.
"""

import functools
import math
import types
import typing
from collections.abc import Sequence

import tensorflow as tf

from slipway.agents import devices
from slipway.agents.networks import numpy_ops

# Result of a function with the decorator `tf.custom_gradient`: a tensor and its
# gradient function. The decorator's type stub has no type for it.
Differentiable = typing.Any

# Filter size and stride of `frames_conv`, in pixels: Mnih et al. 2015, methods,
# "Model architecture", first convolution.
_SIZE, _STRIDE = 8, 4
# Difference between the seeds of consecutive samples of one `Noise`.
_SEED_DISTANCE = 1 << 20
# Number of inputs above which `linear` uses `_wide_product`. Batches have fewer
# elements.
_WIDE = 2048

# Functions of TensorFlow under the names of `numpy_ops`.
exp, cos, sqrt, sign, tanh = tf.exp, tf.cos, tf.sqrt, tf.sign, tf.tanh
log, sigmoid, softplus = tf.math.log, tf.sigmoid, tf.math.softplus
softmax, log_softmax = tf.nn.softmax, tf.nn.log_softmax
minimum, maximum, clip = tf.minimum, tf.maximum, tf.clip_by_value
broadcast_to, reshape, where = tf.broadcast_to, tf.reshape, tf.where
shape, stack, one_hot = tf.shape, tf.stack, tf.one_hot
mean, sum, max = tf.reduce_mean, tf.reduce_sum, tf.reduce_max


class Noise:
  """Random numbers for one call of a network, determined by a seed."""

  def __init__(self, random: tf.Tensor):
    """Sets the seed `random`, int32 [2], from which numbers are sampled."""
    self._seed, self._samples = random, 0

  def normal(self, shape: typing.Any) -> tf.Tensor:
    """Returns standard normal numbers, float32 [*shape]."""
    return tf.random.stateless_normal(shape, self._next_seed())

  def uniform(self, shape: typing.Any) -> tf.Tensor:
    """Returns uniform numbers in [0, 1), float32 [*shape]."""
    return tf.random.stateless_uniform(shape, self._next_seed())

  def _next_seed(self) -> tf.Tensor:
    """Returns a seed int32 [2] that differs for each sample of the call."""
    self._samples += 1
    return self._seed + tf.constant([self._samples * _SEED_DISTANCE, 0])


@tf.custom_gradient
def relu(x: tf.Tensor) -> Differentiable:
  """Returns max(x, 0), elementwise, with a faster gradient than TensorFlow's.

  TensorFlow's own gradient is not vectorized and takes 0.70 ms, a tenth of an
  update of an MLP 256-256. Multiplying dy by sign(y) takes 0.26 ms.
  """
  y = tf.nn.relu(x)
  return y, lambda dy: dy * tf.sign(y)


@tf.custom_gradient
def standardize(x: tf.Tensor) -> Differentiable:
  """Returns x [B, F] with a mean of 0 and a variance of 1 over F.

  TensorFlow would compute the gradient in twice as many operations. Three
  layers of 256 units with layer normalization, and their gradients, take
  1.0 ms less, of 4.7 ms, for batches of 256.
  """

  def mean(y: tf.Tensor) -> tf.Tensor:
    return tf.reduce_mean(y, axis=-1, keepdims=True)

  x = x - mean(x)
  scale = tf.math.rsqrt(mean(x * x) + numpy_ops.VARIANCE_EPSILON)
  y = x * scale
  return y, lambda dy: scale * (dy - mean(dy) - y * mean(dy * y))


def log_normal_tail(z: tf.Tensor) -> tf.Tensor:
  """Returns log P(Z > z) of a standard normal Z, elementwise, float32.

  See `numpy_ops.log_normal_tail`.
  """
  z = tf.cast(tf.minimum(z, numpy_ops.MAX_DEVIATION), tf.float64)
  tail = 0.5 * tf.math.erfc(z / math.sqrt(2.0))
  return tf.cast(tf.math.log(tail), tf.float32)


def float32(x: tf.Tensor) -> tf.Tensor:
  """Returns x as float32."""
  return tf.cast(x, tf.float32)


def flatten(x: tf.Tensor) -> tf.Tensor:
  """Returns x [B, ...] reshaped to [B, F]."""
  size = 1
  for dimension in _static_shape(x)[1:]:
    size *= dimension
  return tf.reshape(x, (-1, size))


def merge_batch_and_time(x: tf.Tensor) -> tf.Tensor:
  """Returns x [B, T, ...] reshaped to [B * T, ...]."""
  return tf.reshape(x, (-1, *x.shape[2:]))


def swapaxes(x: tf.Tensor, a: int, b: int) -> tf.Tensor:
  """Returns x with axes a and b swapped."""
  order = list(range(len(x.shape)))
  order[a], order[b] = order[b], order[a]
  return tf.transpose(x, order)


def concat(xs: Sequence[tf.Tensor], axis: int = -1) -> tf.Tensor:
  """Returns the concatenation of tensors along an existing axis."""
  return tf.concat(xs, axis=axis)


def split(x: tf.Tensor, parts: int) -> list[tf.Tensor]:
  """Returns `parts` equal parts of x along the last axis."""
  return tf.split(x, parts, axis=-1)


def take_rows(x: tf.Tensor, rows: tf.Tensor) -> tf.Tensor:
  """Returns the rows x[i] [K, ...] for the indices i of `rows`, int32 [K].

  Bytes are gathered as words of eight, since GPUs gather no bytes.

  Args:
    x: tensor [N, ...] of any type, whose static shape is known but for N.
    rows: indices of the rows, at least 0 and less than N.
  """
  shape = _static_shape(x)[1:]
  if x.dtype != tf.uint8 or math.prod(shape) % 8:
    return tf.gather(x, rows)
  words = tf.bitcast(tf.reshape(x, (-1, math.prod(shape) // 8, 8)), tf.int64)
  taken = tf.bitcast(tf.gather(words, rows), tf.uint8)
  return tf.reshape(taken, (-1, *shape))


def argmax(x: tf.Tensor) -> tf.Tensor:
  """Returns indices int32 of the largest values of x along the last axis."""
  return tf.argmax(x, axis=-1, output_type=tf.int32)


def linear(x: tf.Tensor, w: tf.Tensor, b: tf.Tensor) -> tf.Tensor:
  """Returns x w + b [B, N], for x [B, F], w [F, N] and b [N]."""
  product = _wide_product if _static_shape(w)[0] > _WIDE else tf.matmul
  return tf.nn.bias_add(product(x, w), b)


def conv(
  x: tf.Tensor,
  w: tf.Tensor,
  b: tf.Tensor,
  stride: int,
  dtype: tf.DType = tf.float32,
) -> tf.Tensor:
  """Returns a convolution with bias, without padding, [B, H', W', N].

  Args:
    x: images [B, H, W, C] of any type.
    w: N filters [h, w, C, N].
    b: biases [N].
  """
  x, w, b = (tf.cast(each, dtype) for each in (x, w, b))
  return tf.nn.bias_add(tf.nn.conv2d(x, w, stride, "VALID"), b)


def frames_conv(
  frames: tf.Tensor,
  w: tf.Tensor,
  b: tf.Tensor,
  dtype: tf.DType = tf.float32,
) -> tf.Tensor:
  """Returns the 8x8 convolution with stride 4 of frames scaled to [0, 1].

  See `layers.Layers.frames_conv`.

  Frames are stored one after the other, but CPUs convolve faster with channels
  last, so the pixels are transposed. `pixels_in_fours` transposes four pixels
  in a row as one number, which makes them four channels of a frame. The 8x8
  kernel of stride 4 then becomes an equal 8x2 kernel of stride 4x1.

  For the two observations of an update, transposing and casting single pixels
  takes 1.8 ms, and fours take 0.6 ms. An 8x8 kernel after oneDNN's own cast and
  transposition would take 0.2 ms more per update.

  Args:
    frames: uint8 [B, stack, height, width].
    w: N filters [8, 8, stack, N].
    b: biases [N].
  """
  groups = _SIZE // _STRIDE
  channels = _static_shape(w)[3]
  kernel = tf.reshape(w, (_SIZE, groups, _STRIDE, -1, channels))
  kernel = tf.transpose(kernel, (0, 1, 3, 2, 4))
  fours = tf.cast(pixels_in_fours(frames), dtype)
  kernel = tf.reshape(kernel, (_SIZE, groups, fours.shape[3], channels))
  outputs = tf.nn.conv2d(fours, tf.cast(kernel, dtype), (_STRIDE, 1), "VALID")
  return tf.nn.bias_add(outputs, tf.cast(b, dtype))


def pixels_in_fours(frames: tf.Tensor) -> tf.Tensor:
  """Returns frames scaled to [0, 1], with four adjacent pixels as channels.

  Args:
    frames: uint8 [B, stack, height, width].

  Returns:
    float32 [B, height, width // 4, stack * 4].
  """
  _, frames_in_stack, height, width = _static_shape(frames)
  columns = width // _STRIDE
  frames = frames[:, :, :, : columns * _STRIDE]
  pixels = tf.reshape(frames, (-1, frames_in_stack, height, columns, _STRIDE))
  # Four bytes are reinterpreted as one float, since oneDNN transposes floats
  # twice as fast as integers. No arithmetic is done, so no bit changes.
  fours = tf.transpose(tf.bitcast(pixels, tf.float32), (0, 2, 3, 1))
  pixels = tf.reshape(
    tf.bitcast(fours, tf.uint8),
    (-1, height, columns, frames_in_stack * _STRIDE),
  )
  if devices.find_gpu():  # for which there is no `dequantize`
    return tf.cast(pixels, tf.float32) / 255.0
  # oneDNN casts and scales here in a fourth of the time of `tf.cast` alone.
  pixels = tf.bitcast(pixels, tf.quint8)
  return tf.quantization.dequantize(pixels, 0.0, 1.0, mode="SCALED")


@tf.custom_gradient
def _wide_product(x: tf.Tensor, w: tf.Tensor) -> Differentiable:
  """Returns x w, with a faster gradient if x has many columns."""

  def gradient(dy: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the gradients of x [B, F] and w [F, N] for dy [B, N]."""
    dx = tf.transpose(tf.matmul(w, dy, transpose_b=True))
    return dx, tf.matmul(x, dy, transpose_a=True)

  return tf.matmul(x, w), gradient


def _static_shape(x: tf.Tensor) -> tuple[int, ...]:
  """Returns the static shape of x, in which the batch size may be None."""
  return typing.cast(tuple[int, ...], tuple(x.shape))


def _bfloat16_linear(x: tf.Tensor, w: tf.Tensor, b: tf.Tensor) -> tf.Tensor:
  """Returns what `linear` does, float32, with a product in bfloat16."""
  product = tf.matmul(tf.cast(x, tf.bfloat16), tf.cast(w, tf.bfloat16))
  return tf.nn.bias_add(float32(product), b)


# The operations with products in bfloat16, which a CPU with instructions for it
# computes twice as fast. Variables and their gradients are float32 all the
# same, and oneDNN sums products in float32.
bfloat16 = types.SimpleNamespace(
  **globals()
  | {
    "linear": _bfloat16_linear,
    "conv": functools.partial(conv, dtype=tf.bfloat16),
    "frames_conv": functools.partial(frames_conv, dtype=tf.bfloat16),
  }
)
