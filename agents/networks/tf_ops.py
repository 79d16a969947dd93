"""What networks compute with, in TensorFlow: the same functions as `numpy_ops`.

They are as fast as a CPU allows: the same sums, arranged for oneDNN. Times are
for one core, an update of the Nature CNN at batch 32 where nothing else is
said; docs/libraries.md has the whole table.
"""

import typing
from collections.abc import Sequence

import tensorflow as tf

# What a function returns that `tf.custom_gradient` decorates: a tensor and its
# gradient function. Neither the wrapper nor its stub has a type for it.
Differentiable = typing.Any

_SIZE, _STRIDE = 8, 4  # pixels; Mnih et al. 2015, methods, first convolution
_APART = 1 << 20  # distance of the seeds of one call's samples
_WIDE = 2048  # inputs of a layer, more than items in any batch

exp, cos, sqrt, sign, tanh = tf.exp, tf.cos, tf.sqrt, tf.sign, tf.tanh
log, sigmoid, softplus = tf.math.log, tf.sigmoid, tf.math.softplus
softmax, log_softmax = tf.nn.softmax, tf.nn.log_softmax
minimum, maximum, clip = tf.minimum, tf.maximum, tf.clip_by_value
broadcast_to, reshape = tf.broadcast_to, tf.reshape


class Noise:
  """The random numbers of one call of a network, the same for the same seed."""

  def __init__(self, random: tf.Tensor):
    """Samples from the seed `random`, int32 [2]."""
    self._seed, self._samples = random, 0

  def normal(self, shape: typing.Any) -> tf.Tensor:
    """Standard normal float32 [*shape]."""
    return tf.random.stateless_normal(shape, self._next_seed())

  def uniform(self, shape: typing.Any) -> tf.Tensor:
    """Uniform float32 [*shape] in [0, 1)."""
    return tf.random.stateless_uniform(shape, self._next_seed())

  def _next_seed(self) -> tf.Tensor:
    self._samples += 1
    return self._seed + tf.constant([self._samples * _APART, 0])


@tf.custom_gradient
def relu(x: tf.Tensor) -> Differentiable:
  """max(x, 0).

  TensorFlow's own gradient is not vectorized: 0.70 ms, and a tenth of an
  update of an MLP 256-256. The product with a sign is, and takes 0.26 ms.
  """
  y = tf.nn.relu(x)
  return y, lambda dy: dy * tf.sign(y)


def float32(x: tf.Tensor) -> tf.Tensor:
  """x as float32."""
  return tf.cast(x, tf.float32)


def shape(x: tf.Tensor) -> tf.Tensor:
  """The shape of x, int32, also where the batch's size is unknown."""
  return tf.shape(x)


def flatten(x: tf.Tensor) -> tf.Tensor:
  """[B, F] of x [B, ...]."""
  size = 1
  for dimension in _static_shape(x)[1:]:
    size *= dimension
  return tf.reshape(x, (-1, size))


def swapaxes(x: tf.Tensor, a: int, b: int) -> tf.Tensor:
  """x with two axes in each other's place."""
  order = list(range(len(x.shape)))
  order[a], order[b] = order[b], order[a]
  return tf.transpose(x, order)


def concat(xs: Sequence[tf.Tensor], axis: int = -1) -> tf.Tensor:
  """The tensors one after the other along an axis."""
  return tf.concat(xs, axis=axis)


def stack(xs: Sequence[tf.Tensor], axis: int) -> tf.Tensor:
  """The tensors along a new axis."""
  return tf.stack(xs, axis=axis)


def split(x: tf.Tensor, parts: int) -> list[tf.Tensor]:
  """So many equal parts of the last axis."""
  return tf.split(x, parts, axis=-1)


def mean(x: tf.Tensor, axis: int, keepdims: bool = False) -> tf.Tensor:
  """The mean along an axis."""
  return tf.reduce_mean(x, axis=axis, keepdims=keepdims)


def sum(x: tf.Tensor, axis: int, keepdims: bool = False) -> tf.Tensor:
  """The sum along an axis."""
  return tf.reduce_sum(x, axis=axis, keepdims=keepdims)


def argmax(x: tf.Tensor) -> tf.Tensor:
  """int32 index of the largest along the last axis."""
  return tf.argmax(x, axis=-1, output_type=tf.int32)


def one_hot(index: tf.Tensor, size: int) -> tf.Tensor:
  """float32 [..., size] with a one at `index` [...]."""
  return tf.one_hot(index, size)


def linear(x: tf.Tensor, w: tf.Tensor, b: tf.Tensor) -> tf.Tensor:
  """x w + b, [B, N] of x [B, F], w [F, N] and b [N]."""
  product = _wide_product if _static_shape(w)[0] > _WIDE else tf.matmul
  return tf.nn.bias_add(product(x, w), b)


def conv(x: tf.Tensor, w: tf.Tensor, b: tf.Tensor, stride: int) -> tf.Tensor:
  """A convolution of x [B, H, W, C] with w [h, w, C, N], without padding."""
  return tf.nn.bias_add(tf.nn.conv2d(float32(x), w, stride, "VALID"), b)


def frames_conv(frames: tf.Tensor, w: tf.Tensor, b: tf.Tensor) -> tf.Tensor:
  """See `layers.Layers.frames_conv`.

  Frames come one after the other; CPUs convolve with channels last. Four
  pixels in a row are moved as one number, and become four channels of each
  frame, for a kernel of 8x2 at stride 4x1. Transposing and casting the two
  observations of an update takes 1.8 ms by pixels, this 0.6 ms. (The kernel of
  8x8 on pixels that oneDNN has cast and transposed: 0.2 ms more an update.)
  """
  groups = _SIZE // _STRIDE
  channels = _static_shape(w)[3]
  kernel = tf.reshape(w, (_SIZE, groups, _STRIDE, -1, channels))
  kernel = tf.transpose(kernel, (0, 1, 3, 2, 4))
  fours = pixels_in_fours(frames)
  kernel = tf.reshape(kernel, (_SIZE, groups, fours.shape[3], channels))
  return tf.nn.bias_add(tf.nn.conv2d(fours, kernel, (_STRIDE, 1), "VALID"), b)


def pixels_in_fours(frames: tf.Tensor) -> tf.Tensor:
  """Floats from 0 to 1 [B, height, width // 4, stack * 4] of `frames`."""
  _, frames_in_stack, height, width = _static_shape(frames)
  columns = width // _STRIDE
  frames = frames[:, :, :, : columns * _STRIDE]
  pixels = tf.reshape(frames, (-1, frames_in_stack, height, columns, _STRIDE))
  # Floats though they are none: those are what oneDNN transposes, at twice the
  # speed of integers. Nothing computes with them, and all bits stay.
  fours = tf.transpose(tf.bitcast(pixels, tf.float32), (0, 2, 3, 1))
  pixels = tf.bitcast(fours, tf.quint8)
  pixels = tf.reshape(pixels, (-1, height, columns, frames_in_stack * _STRIDE))
  # oneDNN's cast and product, at a fourth of the time of `tf.cast` alone.
  return tf.quantization.dequantize(pixels, 0.0, 1.0, mode="SCALED")


@tf.custom_gradient
def _wide_product(x: tf.Tensor, w: tf.Tensor) -> Differentiable:
  """Returns the matrix product x w, with a faster gradient for wide x.

  TensorFlow computes dx = dy w^T, which takes 0.94 ms for 3136 inputs and 512
  outputs; this computes dx = (w dy^T)^T, which takes 0.60 ms.
  """

  def gradient(dy: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    dx = tf.transpose(tf.matmul(w, dy, transpose_b=True))
    return dx, tf.matmul(x, dy, transpose_a=True)

  return tf.matmul(x, w), gradient


def _static_shape(x: tf.Tensor) -> tuple[int, ...]:
  """The shape, of which all is known but, maybe, the size of the batch."""
  return typing.cast(tuple[int, ...], tuple(x.shape))
