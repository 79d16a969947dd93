"""Initial values of variables, computed by NumPy for learners and actors."""

from collections.abc import Callable

import numpy as np

# Function from a random generator and a shape to an initial value, float32.
Initializer = Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]


def truncated_normal(
  random: np.random.Generator, shape: tuple[int, ...]
) -> np.ndarray:
  """Returns normal values of deviation 1 / sqrt(fan_in), cut at two deviations.

  It is the default of Sonnet's layers.

  Args:
    random: source of random numbers.
    shape: [..., outputs]; fan_in is the product of the other dimensions.
  """
  x = random.standard_normal(shape, np.float32)
  while (outside := np.abs(x) > 2).any():
    x[outside] = random.standard_normal(outside.sum(), np.float32)
  return x / np.float32(np.sqrt(fan_in(shape)))


def uniform(bound: float) -> Initializer:
  """Makes an initializer of uniform values between -bound and bound."""
  return lambda random, shape: random.uniform(-bound, bound, shape).astype(
    np.float32
  )


def orthogonal(gain: float) -> Initializer:
  """Makes an initializer of matrices with orthogonal columns or rows.

  Saxe et al. 2014, "Exact solutions to the nonlinear dynamics of learning"
  (https://arxiv.org/abs/1312.6120). Columns or rows have the length `gain`; the
  matrix is [fan_in, outputs].
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
  """Makes an initializer whose values are all `value`."""
  return lambda random, shape: np.full(shape, value, np.float32)


zeros = constant(0.0)
ones = constant(1.0)


def fan_in(shape: tuple[int, ...]) -> int:
  """Returns the number of inputs of each output of a layer."""
  return int(np.prod(shape[:-1]))
