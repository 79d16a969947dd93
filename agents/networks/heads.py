"""Heads: how many outputs a network has per action, and what they mean."""

import typing

import ml_collections
import numpy as np

# Of an implicit network that acts; Dabney et al. 2018, "Implicit quantile
# networks", section 4: K = 32.
GREEDY_QUANTILES = 32


class Head(typing.Protocol):
  """What the outputs [B, A, K] of a network mean.

  Attributes:
    outputs: K; 1 for each quantile where these are sampled.
    sampled: whether the caller chooses K, a number of quantiles, at each call.
    taus: float32 [K], the fractions whose quantiles the outputs are; None where
      they are no quantiles, or are sampled.
  """

  outputs: int
  sampled: bool
  taus: np.ndarray | None

  def values(self, ops: typing.Any, outputs: typing.Any) -> typing.Any:
    """The values [B, A], with `numpy_ops` or `tf_ops`."""
    ...


class Expected:
  """The value itself. Mnih et al. 2015."""

  outputs, sampled = 1, False
  taus: np.ndarray | None = None

  def values(self, ops: typing.Any, outputs: typing.Any) -> typing.Any:
    """The values [B, A] of [B, A, 1]."""
    del ops
    return outputs[:, :, 0]


class Categorical:
  """Logits of returns on a grid. Bellemare et al. 2017."""

  sampled = False
  taus: np.ndarray | None = None

  def __init__(self, lowest: float, highest: float, atoms: int):
    """Lays `atoms` returns from `lowest` to `highest`."""
    self.outputs = atoms
    self.atoms = np.linspace(lowest, highest, atoms, dtype=np.float32)

  def values(self, ops: typing.Any, outputs: typing.Any) -> typing.Any:
    """The mean returns [B, A] of logits [B, A, K]."""
    return ops.sum(ops.softmax(outputs) * self.atoms, -1)


class Quantile:
  """Quantiles at the middles of N equal parts. Dabney et al. 2018, QR-DQN."""

  sampled = False

  def __init__(self, quantiles: int):
    """Divides [0, 1] into `quantiles` parts."""
    self.outputs = quantiles
    self.taus: np.ndarray | None = middles(quantiles)

  def values(self, ops: typing.Any, outputs: typing.Any) -> typing.Any:
    """The mean returns [B, A] of quantiles [B, A, N]."""
    return ops.mean(outputs, -1)


class ImplicitQuantile:
  """Quantiles at any fractions tau. Dabney et al. 2018, IQN."""

  outputs, sampled = 1, True
  taus: np.ndarray | None = None

  def values(self, ops: typing.Any, outputs: typing.Any) -> typing.Any:
    """The mean returns [B, A] of quantiles [B, A, K]."""
    return ops.mean(outputs, -1)


def make_head(config: ml_collections.ConfigDict) -> Head:
  """Makes the head of the `network` section of a config.

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
