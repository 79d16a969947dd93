"""Heads: how many numbers a network gives for an action, and what they mean.

In NumPy, as workers act; `agents.dqn.objectives` has the learner's side.
"""

import typing

import ml_collections
import numpy as np

# Of an implicit network that acts; Dabney et al. 2018, "Implicit quantile
# networks", section 4: K = 32.
GREEDY_QUANTILES = 32


class Head(typing.Protocol):
  """What the numbers [B, A, K] of a network mean.

  Attributes:
    numbers: K; of drawn quantiles 1 for each.
    drawn: whether K is the caller's choice at each call.
    taus: float32 [K], of which quantiles the numbers are; None: of none, or
      they are drawn.
  """

  numbers: int
  drawn: bool
  taus: np.ndarray | None

  def values(self, numbers: np.ndarray) -> np.ndarray:
    """The values [B, A]."""
    ...


class Expected:
  """The value itself. Mnih et al. 2015."""

  numbers, drawn = 1, False
  taus: np.ndarray | None = None

  def values(self, numbers: np.ndarray) -> np.ndarray:
    """The values [B, A] of [B, A, 1]."""
    return numbers[..., 0]


class Categorical:
  """Logits of returns on a grid. Bellemare et al. 2017."""

  drawn = False
  taus: np.ndarray | None = None

  def __init__(self, lowest: float, highest: float, atoms: int):
    """Lays `atoms` returns from `lowest` to `highest`."""
    self.numbers = atoms
    self.atoms = np.linspace(lowest, highest, atoms, dtype=np.float32)

  def values(self, numbers: np.ndarray) -> np.ndarray:
    """The mean returns [B, A] of logits [B, A, K]."""
    weights = np.exp(numbers - numbers.max(axis=2, keepdims=True))
    return weights @ self.atoms / weights.sum(axis=2)


class Quantile:
  """Quantiles at the middles of N equal parts. Dabney et al. 2018, QR-DQN."""

  drawn = False

  def __init__(self, quantiles: int):
    """Of `quantiles` parts."""
    self.numbers = quantiles
    self.taus: np.ndarray | None = middles(quantiles)

  def values(self, numbers: np.ndarray) -> np.ndarray:
    """The mean returns [B, A] of quantiles [B, A, N]."""
    return numbers.mean(axis=2)


class ImplicitQuantile:
  """Quantiles of any taus. Dabney et al. 2018, IQN."""

  numbers, drawn = 1, True
  taus: np.ndarray | None = None

  def values(self, numbers: np.ndarray) -> np.ndarray:
    """The mean returns [B, A] of quantiles [B, A, K]."""
    return numbers.mean(axis=2)


def make_head(config: ml_collections.ConfigDict) -> Head:
  """The head of the `network` part of a config.

  Raises:
    ValueError: no head has this name.
  """
  if config.head == "expected":
    return Expected()
  if config.head == "categorical":
    return Categorical(
      config.lowest_return, config.highest_return, config.atoms
    )
  if config.head == "quantile":
    return Quantile(config.quantiles)
  if config.head == "implicit_quantile":
    return ImplicitQuantile()
  raise ValueError(f"config.network.head={config.head!r} is no head")


def middles(parts: int) -> np.ndarray:
  """The middles of so many equal parts of [0, 1], float32 [parts]."""
  return ((np.arange(parts) + 0.5) / parts).astype(np.float32)
