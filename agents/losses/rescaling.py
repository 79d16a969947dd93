"""The value rescaling h of R2D2, for NumPy arrays and TensorFlow tensors.

h(x) = sign(x) (sqrt(|x| + 1) - 1) + eps x: Pohlen et al. 2018, "Observe and
look further" (https://arxiv.org/abs/1805.11593), proposition A.2; Kapturowski
et al. 2019, "Recurrent experience replay in distributed reinforcement
learning", section 2.3.
"""

import typing

# eps, the weight of h's linear term, which keeps h^-1 Lipschitz continuous. The
# value is that of Kapturowski et al. 2019, section 2.3.
EPSILON = 1e-3


def rescale(x: typing.Any) -> typing.Any:
  """Returns the rescaled values h(x) of an array or tensor, elementwise."""
  return _sign(x) * ((abs(x) + 1.0) ** 0.5 - 1.0) + EPSILON * x


def unscale(x: typing.Any) -> typing.Any:
  """Returns h^-1(x), which undoes `rescale`, elementwise."""
  above = abs(x) + 1.0 + EPSILON
  root = (1.0 + 4.0 * EPSILON * above) ** 0.5
  # The paper's (root - 1) / (2 eps) has 4 correct digits in float32.
  part = 2.0 * above / (root + 1.0)
  return _sign(x) * (part - 1.0) * (part + 1.0)


def _sign(x: typing.Any) -> typing.Any:
  """Returns the sign of x, elementwise, with 1 at x = 0."""
  # The 1 at x = 0 is harmless, as the other factor is 0 there.
  return 1.0 - 2.0 * _as_float(x < 0, x)


def _as_float(condition: typing.Any, like: typing.Any) -> typing.Any:
  """Returns a bool array or tensor, converted to the dtype of `like`."""
  if hasattr(condition, "astype"):
    return condition.astype(like.dtype)
  import tensorflow as tf

  return tf.cast(condition, like.dtype)
