"""Heads: the number and meaning of a Q-network's outputs per action."""

import typing

import ml_collections
import numpy as np

# Number of quantiles whose mean is an action's value when IQN chooses actions:
# K = 32 in Dabney et al. 2018, "Implicit quantile networks", section 4.
GREEDY_QUANTILES = 32


class Head(typing.Protocol):
  """Defines the meaning of a Q-network's outputs [B, A, K].

  B is the batch size, A the number of actions, and K the outputs per action.

  Attributes:
    outputs: number K of outputs per action, or 1 if `sampled`, as K is then an
      argument of each call.
    sampled: whether the outputs are quantiles, at fractions tau that each call
      of the network samples.
    taus: float32 [K], fixed fractions of the quantiles, or None if the outputs
      are not quantiles or the fractions are sampled.
  """

  outputs: int
  sampled: bool
  taus: np.ndarray | None

  def values(self, ops: typing.Any, outputs: typing.Any) -> typing.Any:
    """Returns the action values [B, A] of outputs [B, A, K].

    Args:
      ops: array operations: `numpy_ops` or `tf_ops`.
      outputs: outputs of the network [B, A, K].
    """
    ...


class Expected:
  """Head with one output per action, its value, as in DQN.

  Mnih et al. 2015, "Human-level control through deep reinforcement learning".
  """

  outputs, sampled = 1, False
  taus: np.ndarray | None = None

  def values(self, ops: typing.Any, outputs: typing.Any) -> typing.Any:
    """Returns the outputs [B, A, 1] as values [B, A]."""
    del ops
    return outputs[:, :, 0]


class Categorical:
  """Head whose outputs are logits of equally spaced returns, as in C51.

  Bellemare et al. 2017, "A distributional perspective on reinforcement
  learning".

  Attributes:
    outputs: number K of atoms.
    atoms: float32 [K], the returns, in ascending order.
  """

  sampled = False
  taus: np.ndarray | None = None

  def __init__(self, lowest: float, highest: float, atoms: int):
    """Makes `atoms` equally spaced returns from `lowest` to `highest`."""
    self.outputs = atoms
    self.atoms = np.linspace(lowest, highest, atoms, dtype=np.float32)

  def values(self, ops: typing.Any, outputs: typing.Any) -> typing.Any:
    """Returns the mean returns [B, A] of logits [B, A, K]."""
    return ops.sum(ops.softmax(outputs) * self.atoms, -1)


class Quantile:
  """Head whose outputs are quantiles at N fixed fractions, as in QR-DQN.

  Dabney et al. 2018, "Distributional reinforcement learning with quantile
  regression".
  """

  sampled = False

  def __init__(self, quantiles: int):
    """Sets the fractions to the midpoints of equal parts of [0, 1].

    Args:
      quantiles: N, the number of quantiles.
    """
    self.outputs = quantiles
    self.taus: np.ndarray | None = make_midpoints(quantiles)

  def values(self, ops: typing.Any, outputs: typing.Any) -> typing.Any:
    """Returns the mean returns [B, A] of quantiles [B, A, N]."""
    return ops.mean(outputs, -1)


class ImplicitQuantile:
  """Head whose outputs are quantiles at sampled fractions, as in IQN.

  Dabney et al. 2018, "Implicit quantile networks for distributional
  reinforcement learning".
  """

  outputs, sampled = 1, True
  taus: np.ndarray | None = None

  def values(self, ops: typing.Any, outputs: typing.Any) -> typing.Any:
    """Returns the mean returns [B, A] of quantiles [B, A, K]."""
    return ops.mean(outputs, -1)


def make_head(config: ml_collections.ConfigDict) -> Head:
  """Makes the head that `config.head` names.

  Args:
    config: the `network` section of a config.

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
