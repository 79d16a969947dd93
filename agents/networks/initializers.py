"""Initial values of variables, in NumPy: the same with and without a graph."""

from collections.abc import Callable

import numpy as np

# The initial value float32 [*shape] from a generator and a shape.
Initializer = Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]


def truncated_normal(
  random: np.random.Generator, shape: tuple[int, ...]
) -> np.ndarray:
  """Normal with deviation 1 / sqrt(fan_in), cut at two deviations.

  The default of Sonnet's layers.

  Args:
    random: source of random numbers.
    shape: [..., outputs]; fan_in is the product of the other dimensions.
  """
  x = random.standard_normal(shape, np.float32)
  while (outside := np.abs(x) > 2).any():
    x[outside] = random.standard_normal(outside.sum(), np.float32)
  return x / np.float32(np.sqrt(fan_in(shape)))


def uniform(bound: float) -> Initializer:
  """Uniform between -bound and bound."""
  return lambda random, shape: random.uniform(-bound, bound, shape).astype(
    np.float32
  )


def orthogonal(gain: float) -> Initializer:
  """Orthogonal columns or rows of length `gain`.

  Saxe et al. 2014, "Exact solutions to the nonlinear dynamics of learning"
  (https://arxiv.org/abs/1312.6120). The shape is taken as the matrix
  [fan_in, outputs].
  """

  def initialize(
    random: np.random.Generator, shape: tuple[int, ...]
  ) -> np.ndarray:
    rows, columns = fan_in(shape), shape[-1]
    x = random.standard_normal((max(rows, columns), min(rows, columns)))
    q, r = np.linalg.qr(x)
    q = q * np.sign(np.diag(r))  # uniform over orthogonal matrices
    if rows < columns:
      q = q.T
    return (gain * q).reshape(shape).astype(np.float32)

  return initialize


def constant(value: float) -> Initializer:
  """The same value everywhere."""
  return lambda random, shape: np.full(shape, value, np.float32)


zeros = constant(0.0)
ones = constant(1.0)


def fan_in(shape: tuple[int, ...]) -> int:
  """The number of inputs that one output of a layer sums."""
  return int(np.prod(shape[:-1]))
