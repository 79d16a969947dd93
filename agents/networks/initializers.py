"""Initializers: functions that compute the initial values of variables."""

import math
import typing
from collections.abc import Callable, Mapping

import numpy as np

# Function of a random generator and a shape that returns float32 values.
Initializer = Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]


def constant(value: float) -> Initializer:
  """Returns an initializer whose values are all `value`."""
  return lambda random, shape: np.full(shape, value, np.float32)


zeros = constant(0.0)  # initializer of zeros
ones = constant(1.0)  # initializer of ones


def uniform(bound: float) -> Initializer:
  """Returns an initializer of uniform values between -bound and bound."""
  return lambda random, shape: random.uniform(-bound, bound, shape).astype(
    np.float32
  )


class LayerInitializer(typing.NamedTuple):
  """The initializers of a linear layer or a convolution.

  Attributes:
    weights: initializer of w. The last number of its shape counts the layer's
      outputs, and the product of the others is fan_in.
    biases: function of fan_in that returns the initializer of b.
  """

  weights: Initializer
  biases: Callable[[int], Initializer] = lambda fan_in: zeros


def _truncated_normal(
  random: np.random.Generator, shape: tuple[int, ...]
) -> np.ndarray:
  """Returns normal values; those beyond two deviations are sampled again."""
  x = random.standard_normal(shape, np.float32)
  while (outside := np.abs(x) > 2).any():
    x[outside] = random.standard_normal(outside.sum(), np.float32)
  return x / np.float32(np.sqrt(count_inputs(shape)))


# The initializer of Sonnet's layers: truncated normal weights with mean 0 and
# deviation 1 / sqrt(fan_in) before their truncation at two deviations, and
# biases of 0.
truncated_normal = LayerInitializer(_truncated_normal)


def _uniform_biases(fan_in: int) -> Initializer:
  """Returns the initializer of uniform values within 1 / sqrt(fan_in)."""
  return uniform(1 / math.sqrt(fan_in))


# The initializer of PyTorch's layers: weights and biases are uniform between
# -1 / sqrt(fan_in) and 1 / sqrt(fan_in).
uniform_by_fan_in = LayerInitializer(
  lambda random, shape: _uniform_biases(count_inputs(shape))(random, shape),
  _uniform_biases,
)


def orthogonal(gain: float) -> LayerInitializer:
  """Returns an initializer of matrices with orthogonal columns or rows.

  Saxe et al. 2014, "Exact solutions to the nonlinear dynamics of learning"
  (https://arxiv.org/abs/1312.6120). The matrix is [fan_in, outputs]: weights
  with more dimensions are flattened. Biases are 0.

  Args:
    gain: length of the columns, or of the rows if there are fewer rows.
  """

  def initialize(
    random: np.random.Generator, shape: tuple[int, ...]
  ) -> np.ndarray:
    """Returns initial weights, float32 of the given shape."""
    rows, columns = count_inputs(shape), shape[-1]
    x = random.standard_normal((max(rows, columns), min(rows, columns)))
    q, r = np.linalg.qr(x)
    q = q * np.sign(np.diag(r))  # uniform over orthogonal matrices
    if rows < columns:
      q = q.T
    return (gain * q).reshape(shape).astype(np.float32)

  return LayerInitializer(initialize)


def returns_at_zero(atoms: np.ndarray) -> LayerInitializer:
  """Returns the initializer of a layer of logits of returns that starts at 0.

  The distribution is at a return of 0, or at the atom nearest to it, and its
  probabilities fall by a factor of e from atom to atom. All weights are 0, so
  it is the same for all inputs, as in Hafner et al. 2023, "Mastering diverse
  domains through world models" (https://arxiv.org/abs/2301.04104). A wide
  distribution with random weights would have means that differ between inputs
  by more than rewards do, since its atoms are far apart.

  Args:
    atoms: returns of the atoms in ascending order, [K]; the layer has K outputs
      for each of its distributions.
  """
  indices = np.arange(len(atoms))
  logits = -abs(indices - np.interp(0.0, atoms, indices)).astype(np.float32)
  return LayerInitializer(
    zeros,
    lambda fan_in: (
      lambda random, shape: np.tile(logits, shape[0] // len(atoms))
    ),
  )


def count_inputs(shape: tuple[int, ...]) -> int:
  """Returns fan_in, the number of inputs of each output of a layer.

  Args:
    shape: shape of the layer's weights, whose last number counts its outputs.
  """
  return int(np.prod(shape[:-1]))


class Scheme(typing.NamedTuple):
  """The initializers of the layers of a policy or of values.

  Attributes:
    hidden: initializer of all layers before the output.
    policy: initializer of the output layer of a policy.
    values: initializer of the output layer of values.
  """

  hidden: LayerInitializer
  policy: LayerInitializer
  values: LayerInitializer


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
