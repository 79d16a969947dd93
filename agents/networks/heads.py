"""Heads: the number and meaning of a Q-network's outputs per action."""

import math
import typing

import ml_collections
import numpy as np

# Number of quantiles whose mean is an action's value when IQN chooses actions:
# K = 32 in Dabney et al. 2018, "Implicit quantile networks", section 4.
GREEDY_QUANTILES = 32

# Number of atoms without a support, and the symlog of the last one: those of
# DreamerV3's critic; see `make_atoms`.
_SYMEXP_ATOMS, _LARGEST_SYMLOG = 255, 20.0


class Head(typing.NamedTuple):
  """The meaning of a Q-network's outputs [B, A, K]: one of four.

  'expected', the value itself (K = 1): Mnih et al. 2015. 'categorical', logits
  of fixed returns: Bellemare et al. 2017, "A distributional perspective on
  reinforcement learning". 'quantile', quantiles at N fixed
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
    atoms = make_atoms(config)
    return Head(len(atoms), atoms=atoms)
  if config.head == "quantile":
    return Head(config.quantiles, taus=make_midpoints(config.quantiles))
  if config.head == "implicit_quantile":
    return Head(sampled=True)
  raise ValueError(f"config.network.head={config.head!r} is no head")


def make_atoms(config: ml_collections.ConfigDict) -> np.ndarray:
  """Returns the returns of a distribution in ascending order, float32 [K].

  They are equally spaced over the support of the `network` section of a config.
  Without a support, they are 255 returns of any size up to 4.9e8, symexp(x) =
  sign(x) (exp(|x|) - 1) of equally spaced x in [-20, 20]: Hafner et al. 2023,
  "Mastering diverse domains through world models"
  (https://arxiv.org/abs/2301.04104), section "Critic learning".
  """
  if has_support(config):
    ends = config.lowest_return, config.highest_return
    return np.linspace(*ends, config.atoms, dtype=np.float32)
  x = np.linspace(-_LARGEST_SYMLOG, _LARGEST_SYMLOG, _SYMEXP_ATOMS)
  return (np.sign(x) * np.expm1(abs(x))).astype(np.float32)


def has_support(config: ml_collections.ConfigDict) -> bool:
  """Returns whether a config's `network` section has bounds for returns."""
  return math.isfinite(config.highest_return)


def make_midpoints(parts: int) -> np.ndarray:
  """Returns the midpoints of `parts` equal parts of [0, 1], float32 [parts]."""
  return ((np.arange(parts) + 0.5) / parts).astype(np.float32)
