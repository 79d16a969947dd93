"""Heads: the number and meaning of a Q-network's outputs per action."""

import typing

import ml_collections
import numpy as np

# Number of quantiles whose mean is an action's value when IQN chooses actions:
# K = 32 in Dabney et al. 2018, "Implicit quantile networks", section 4.
GREEDY_QUANTILES = 32


class Head(typing.NamedTuple):
  """The meaning of a Q-network's outputs [B, A, K]: one of four.

  'expected', the value itself (K = 1): Mnih et al. 2015. 'categorical', logits
  of equally spaced returns: Bellemare et al. 2017, "A distributional
  perspective on reinforcement learning". 'quantile', quantiles at N fixed
  fractions: Dabney et al. 2018, "Distributional reinforcement learning with
  quantile regression". 'implicit_quantile', quantiles at fractions that each
  call of the network samples: Dabney et al. 2018, "Implicit quantile networks".

  Attributes:
    outputs: number K of outputs per action, or 1 if `sampled`, as K is then an
      argument of each call.
    sampled: whether the fractions of the quantiles are sampled.
    taus: float32 [K], fixed fractions of the quantiles: the midpoints of equal
      parts of [0, 1].
    atoms: float32 [K], the returns of 'categorical', in ascending order.
  """

  outputs: int = 1
  sampled: bool = False
  taus: np.ndarray | None = None
  atoms: np.ndarray | None = None

  def values(self, ops: typing.Any, outputs: typing.Any) -> typing.Any:
    """Returns the action values [B, A] of outputs [B, A, K], by `ops`."""
    if self.atoms is not None:
      return ops.sum(ops.softmax(outputs) * self.atoms, -1)
    if self.sampled or self.taus is not None:
      return ops.mean(outputs, -1)
    return outputs[:, :, 0]


def make_head(config: ml_collections.ConfigDict) -> Head:
  """Makes the head that the `network` section of a config names.

  Raises:
    ValueError: no head has this name.
  """
  if config.head == "expected":
    return Head()
  if config.head == "categorical":
    ends = config.lowest_return, config.highest_return
    atoms = np.linspace(*ends, config.atoms, dtype=np.float32)
    return Head(config.atoms, atoms=atoms)
  if config.head == "quantile":
    return Head(config.quantiles, taus=make_midpoints(config.quantiles))
  if config.head == "implicit_quantile":
    return Head(sampled=True)
  raise ValueError(f"config.network.head={config.head!r} is no head")


def make_midpoints(parts: int) -> np.ndarray:
  """Returns the midpoints of `parts` equal parts of [0, 1], float32 [parts]."""
  return ((np.arange(parts) + 0.5) / parts).astype(np.float32)
