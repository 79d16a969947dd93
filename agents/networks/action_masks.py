"""Penalties that exclude illegal actions from the outputs of networks.

A masked observation is a flat observation followed by its mask
(`slipway.environments.arrays.MaskedArray`). A network splits the two, and adds
`ILLEGAL` to the value or logit of each illegal action. So actors and
bootstraps never use illegal actions.
"""

import typing

import numpy as np
from acme import specs

from slipway.agents.networks import numpy_ops
from slipway.environments import arrays

Array = typing.Any  # np.ndarray with `numpy_ops`, tf.Tensor with `tf_ops`

# Penalty added to the value or logit of an illegal action. Sums of penalties,
# and quotients by small temperatures, stay finite in float32.
ILLEGAL = -1e30
# Largest absolute value of an action, at which illegal actions are still below
# all legal ones.
LARGEST_VALUE = 1e29


class MaskSplitter:
  """Splits masked observations into observations and penalties of actions.

  Penalties are added to a network's outputs, so that illegal actions are never
  chosen.

  In the shapes, B is the batch size, A the number of a network's outputs, and M
  the size of a mask: one entry for each value of each component of an action.

  Attributes:
    observations: spec of the observations without their masks.
  """

  def __init__(self, spec: specs.EnvironmentSpec):
    """Prepares the conversion of an environment's masks to penalties.

    A network has one output for each discrete action. For actions of K
    components it has K * N, where N is the size of the largest component;
    outputs beyond a component's own size are always illegal.

    Args:
      spec: spec of one environment, whose actions may be joint actions.
    """
    self._spec = spec.observations
    self.observations = arrays.remove_mask(spec.observations)
    # The illegal outputs are a linear function of the illegal mask entries.
    # [M, A] of M mask entries and A outputs of the network.
    self._illegal_weights: np.ndarray | None = None
    # 1 for outputs that are always illegal, else 0. [A]
    self._always_illegal: np.ndarray | None = None
    if isinstance(spec.actions, arrays.JointActionArray):
      weights = _make_joint_weights(spec.actions)
      self._illegal_weights = weights
      self._always_illegal = np.zeros(weights.shape[1], np.float32)
    elif isinstance(spec.actions, arrays.MultiDiscreteArray):
      self._illegal_weights, self._always_illegal = _make_component_weights(
        spec.actions
      )

  def split(
    self, ops: typing.Any, observation: Array
  ) -> tuple[Array, Array | None]:
    """Returns observations without masks, and penalties of illegal actions.

    Args:
      observation: observations, possibly masked, [B, ...].

    Returns:
      Observations [B, ...], and penalties float32 [B, A] or [A], which are 0
      for legal actions and `ILLEGAL` for others. The penalties are None if
      observations have no masks and no output is always illegal.
    """
    if not isinstance(self._spec, arrays.MaskedArray):
      if self._always_illegal is None or not self._always_illegal.any():
        return observation, None
      return observation, self._always_illegal * ILLEGAL
    size = self._spec.mask_size
    illegal = 1.0 - ops.float32(observation[:, -size:])
    if self._illegal_weights is not None:
      illegal = ops.linear(illegal, self._illegal_weights, self._always_illegal)
      illegal = ops.minimum(illegal, np.float32(1.0))
    shape = (-1, *self.observations.shape)
    unmasked = ops.reshape(observation[:, :-size], shape)
    return unmasked, illegal * ILLEGAL

  def find_legal(self, observation: np.ndarray) -> np.ndarray:
    """Returns the legal actions of masked observations, bool [B, A].

    The environment's observations must have masks.

    Args:
      observation: masked observations [B, F]; F is the size of an observation
        plus the size of its mask.
    """
    _, penalty = self.split(numpy_ops, observation)
    assert penalty is not None
    return penalty == 0


def _make_joint_weights(actions: arrays.JointActionArray) -> np.ndarray:
  """Returns the matrix from mask entries to joint actions."""
  components = actions.components  # [A, K]
  sizes = components.max(axis=0) + 1
  index = np.cumsum(sizes) - sizes + components
  weights = np.zeros((sizes.sum(), len(components)), np.float32)
  weights[index.T, np.arange(len(components))] = 1.0
  return weights


def _make_component_weights(
  actions: arrays.MultiDiscreteArray,
) -> tuple[np.ndarray, np.ndarray]:
  """Returns the matrix from mask entries to outputs, and illegal outputs."""
  used = np.arange(max(actions.sizes)) < np.array(actions.sizes)[:, None]
  outputs = np.flatnonzero(used)  # of each value of each component
  weights = np.eye(used.size, dtype=np.float32)[outputs]
  return weights, 1.0 - used.reshape(-1).astype(np.float32)
