"""Initializers: functions that compute the initial values of variables."""

import math
import typing
from collections.abc import Callable, Mapping

import numpy as np

# Function of a random generator and a shape that returns float32 values.
Initializer = Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]


def truncated_normal(
  random: np.random.Generator, shape: tuple[int, ...]
) -> np.ndarray:
  """Returns truncated normal values, the initializer of Sonnet's layers.

  Values have mean 0 and deviation 1 / sqrt(fan_in). Those beyond two deviations
  are sampled again.

  Args:
    random: generator of the random numbers.
    shape: shape of the values; the last number counts the layer's outputs, and
      fan_in is the product of the others.

  Returns:
    Initial values, float32 of that shape.
  """
  x = random.standard_normal(shape, np.float32)
  while (outside := np.abs(x) > 2).any():
    x[outside] = random.standard_normal(outside.sum(), np.float32)
  return x / np.float32(np.sqrt(fan_in(shape)))


def uniform_by_fan_in(
  random: np.random.Generator, shape: tuple[int, ...]
) -> np.ndarray:
  """Returns uniform values, the initial weights of PyTorch's linear layers.

  They are between -1 / sqrt(fan_in) and 1 / sqrt(fan_in), so their deviation is
  sqrt(1 / 3) of that of `truncated_normal` before its truncation.

  Args:
    random: generator of the random numbers.
    shape: shape of the values, as for `truncated_normal`.

  Returns:
    Initial values, float32 of that shape.
  """
  return uniform(1 / math.sqrt(fan_in(shape)))(random, shape)


def uniform(bound: float) -> Initializer:
  """Returns an initializer of uniform values between -bound and bound."""
  return lambda random, shape: random.uniform(-bound, bound, shape).astype(
    np.float32
  )


def orthogonal(gain: float) -> Initializer:
  """Returns an initializer of matrices with orthogonal columns or rows.

  Saxe et al. 2014, "Exact solutions to the nonlinear dynamics of learning"
  (https://arxiv.org/abs/1312.6120). The matrix is [fan_in, outputs]: weights
  with more dimensions are flattened.

  Args:
    gain: length of the columns, or of the rows if there are fewer rows.
  """

  def initialize(
    random: np.random.Generator, shape: tuple[int, ...]
  ) -> np.ndarray:
    """Returns initial values, float32 of the given shape."""
    rows, columns = fan_in(shape), shape[-1]
    x = random.standard_normal((max(rows, columns), min(rows, columns)))
    q, r = np.linalg.qr(x)
    q = q * np.sign(np.diag(r))  # uniform over orthogonal matrices
    if rows < columns:
      q = q.T
    return (gain * q).reshape(shape).astype(np.float32)

  return initialize


def constant(value: float) -> Initializer:
  """Returns an initializer whose values are all `value`."""
  return lambda random, shape: np.full(shape, value, np.float32)


zeros = constant(0.0)  # initializer of zeros
ones = constant(1.0)  # initializer of ones


def fan_in(shape: tuple[int, ...]) -> int:
  """Returns the number of inputs of each output of a layer.

  Args:
    shape: shape of the layer's weights, whose last number counts its outputs.
  """
  return int(np.prod(shape[:-1]))


class Scheme(typing.NamedTuple):
  """The initializers of the weights of a policy or of values.

  Attributes:
    hidden: initializer of all layers before the output.
    policy: initializer of the output layer of a policy.
    values: initializer of the output layer of values.
  """

  hidden: Initializer
  policy: Initializer
  values: Initializer


TRUNCATED_NORMAL = Scheme(*3 * (truncated_normal,))
# The schemes, by the value of `config.network.initializer`. The gains of
# 'orthogonal' are those of Andrychowicz et al. 2021, "What matters for
# on-policy deep actor-critic methods?", section 3.2.
SCHEMES: Mapping[str, Scheme] = {
  "truncated_normal": TRUNCATED_NORMAL,
  "uniform": Scheme(*3 * (uniform_by_fan_in,)),
  "orthogonal": Scheme(
    orthogonal(math.sqrt(2)), orthogonal(0.01), orthogonal(1.0)
  ),
}
