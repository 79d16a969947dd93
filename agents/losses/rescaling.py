"""Value rescaling, for NumPy arrays and TensorFlow tensors.

h(x) = sign(x) (sqrt(|x| + 1) - 1) + eps x: Pohlen et al. 2018, "Observe and
look further" (https://arxiv.org/abs/1805.11593), proposition A.2; Kapturowski
et al. 2019, "Recurrent experience replay in distributed reinforcement
learning", section 2.3.
"""

import typing

EPSILON = 1e-3


def rescale(x: typing.Any) -> typing.Any:
  """Returns h(x), elementwise."""
  return _sign(x) * ((abs(x) + 1.0) ** 0.5 - 1.0) + EPSILON * x


def unscale(x: typing.Any) -> typing.Any:
  """Returns the inverse of h at x, elementwise."""
  above = abs(x) + 1.0 + EPSILON
  root = (1.0 + 4.0 * EPSILON * above) ** 0.5
  # The paper's (root - 1) / (2 eps) has 4 correct digits in float32.
  part = 2.0 * above / (root + 1.0)
  return _sign(x) * (part - 1.0) * (part + 1.0)


def _sign(x: typing.Any) -> typing.Any:
  # Returns 1 at x = 0 too, which is harmless, as the other factor is 0 there.
  return 1.0 - 2.0 * _as_float(x < 0, x)


def _as_float(condition: typing.Any, like: typing.Any) -> typing.Any:
  """Converts a bool array or tensor to the type of `like`."""
  if hasattr(condition, "astype"):
    return condition.astype(like.dtype)
  import tensorflow as tf

  return tf.cast(condition, like.dtype)
