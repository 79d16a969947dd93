"""Heads: the number and the meaning of a network's outputs per action."""

import typing

import ml_collections
import numpy as np

# Quantiles by which IQN's actors choose; Dabney et al. 2018, "Implicit quantile
# networks", section 4: K = 32.
GREEDY_QUANTILES = 32


class Head(typing.Protocol):
  """Defines what the outputs [B, A, K] of a network mean.

  B is the batch size, A the number of actions, and K the outputs per action.

  Attributes:
    outputs: K, or 1 if `sampled`, since then each call chooses K.
    sampled: whether the outputs are quantiles at fractions tau that each call
      samples.
    taus: float32 [K], fixed fractions of the quantiles, or None if the outputs
      are not quantiles or the fractions are sampled.
  """

  outputs: int
  sampled: bool
  taus: np.ndarray | None

  def values(self, ops: typing.Any, outputs: typing.Any) -> typing.Any:
    """Returns action values [B, A], computed by `numpy_ops` or `tf_ops`."""
    ...


class Expected:
  """Outputs are action values. Mnih et al. 2015."""

  outputs, sampled = 1, False
  taus: np.ndarray | None = None

  def values(self, ops: typing.Any, outputs: typing.Any) -> typing.Any:
    """Returns the outputs [B, A, 1] as values [B, A]."""
    del ops
    return outputs[:, :, 0]


class Categorical:
  """Outputs are logits of equally spaced returns. Bellemare et al. 2017."""

  sampled = False
  taus: np.ndarray | None = None

  def __init__(self, lowest: float, highest: float, atoms: int):
    """Spaces `atoms` returns equally from `lowest` to `highest`."""
    self.outputs = atoms
    self.atoms = np.linspace(lowest, highest, atoms, dtype=np.float32)

  def values(self, ops: typing.Any, outputs: typing.Any) -> typing.Any:
    """Returns the mean returns [B, A] of logits [B, A, K]."""
    return ops.sum(ops.softmax(outputs) * self.atoms, -1)


class Quantile:
  """Outputs are quantiles at N fixed fractions. Dabney et al. 2018, QR-DQN."""

  sampled = False

  def __init__(self, quantiles: int):
    """Sets fractions to the midpoints of `quantiles` equal parts of [0, 1]."""
    self.outputs = quantiles
    self.taus: np.ndarray | None = make_midpoints(quantiles)

  def values(self, ops: typing.Any, outputs: typing.Any) -> typing.Any:
    """Returns the mean returns [B, A] of quantiles [B, A, N]."""
    return ops.mean(outputs, -1)


class ImplicitQuantile:
  """Outputs are quantiles at sampled fractions. Dabney et al. 2018, IQN."""

  outputs, sampled = 1, True
  taus: np.ndarray | None = None

  def values(self, ops: typing.Any, outputs: typing.Any) -> typing.Any:
    """Returns the mean returns [B, A] of quantiles [B, A, K]."""
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


def make_midpoints(parts: int) -> np.ndarray:
  """Returns the midpoints of `parts` equal parts of [0, 1], float32 [parts]."""
  return ((np.arange(parts) + 0.5) / parts).astype(np.float32)
