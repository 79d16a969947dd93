"""Action masks: what networks do with the masks that observations carry.

An observation with a mask is flat, with the mask behind it
(`slipway.environments.arrays.MaskedArray`). A network splits it, and adds
`ILLEGAL` to the value or logit of each action that is not legal. Whatever
chooses, bootstraps or samples by these outputs then leaves such actions out.
"""

import typing

import numpy as np
from acme import specs

from slipway.agents.networks import numpy_ops
from slipway.environments import arrays

Array = typing.Any

# Below all returns and logits, but so that sums and exponentials stay finite.
ILLEGAL = -1e9


class ActionMask:
  """Splits the observations of one environment; without masks, returns them.

  Attributes:
    observations: the spec of the observations without their masks.
  """

  def __init__(self, spec: specs.EnvironmentSpec):
    """Prepares for an environment.

    A network has one output for each discrete action. For actions of K
    components it has K * N, where N is the size of the largest component;
    outputs beyond a component's own size are never legal.

    Args:
      spec: of one environment; its actions may be joint actions.
    """
    self._spec = spec.observations
    self.observations = arrays.remove_mask(spec.observations)
    # Outputs that are illegal: linear in the actions that are.
    self._weights: np.ndarray | None = None  # [M, A]
    self._padding: np.ndarray | None = None  # [A]
    if isinstance(spec.actions, arrays.JointActionArray):
      self._weights = _mark_joint_actions(spec.actions)
      self._padding = np.zeros(self._weights.shape[1], np.float32)
    elif isinstance(spec.actions, arrays.MultiDiscreteArray):
      self._weights, self._padding = _mark_components(spec.actions)

  def split(
    self, ops: typing.Any, observation: Array
  ) -> tuple[Array, Array | None]:
    """Splits observations from what is added to a network's outputs.

    Args:
      ops: `numpy_ops` or `tf_ops`.
      observation: [B, ...].

    Returns:
      Observations [B, ...], and float32 [B, A] or [A]: 0 for legal actions,
      `ILLEGAL` for others. None: all actions are legal.
    """
    if not isinstance(self._spec, arrays.MaskedArray):
      if self._padding is None or not self._padding.any():
        return observation, None
      return observation, self._padding * ILLEGAL
    size = self._spec.mask_size
    illegal = 1.0 - ops.float32(observation[:, -size:])
    if self._weights is not None:
      illegal = ops.linear(illegal, self._weights, self._padding)
      illegal = ops.minimum(illegal, np.float32(1.0))
    shape = (-1, *self.observations.shape)
    alone = ops.reshape(observation[:, :-size], shape)
    return alone, illegal * ILLEGAL

  def find_legal(self, observation: np.ndarray) -> np.ndarray:
    """Returns which actions are legal, bool [B, A], of masked observations."""
    _, penalty = self.split(numpy_ops, observation)
    assert penalty is not None
    return penalty == 0


def _mark_joint_actions(actions: arrays.JointActionArray) -> np.ndarray:
  """Returns [M, A]: 1 where a joint action has a component's value."""
  components = actions.components  # [A, K]
  sizes = components.max(axis=0) + 1
  index = np.cumsum(sizes) - sizes + components
  weights = np.zeros((sizes.sum(), len(components)), np.float32)
  weights[index.T, np.arange(len(components))] = 1.0
  return weights


def _mark_components(
  actions: arrays.MultiDiscreteArray,
) -> tuple[np.ndarray, np.ndarray]:
  """Returns the outputs of values [M, K * N], and 1 for the others [K * N]."""
  used = np.arange(max(actions.sizes)) < np.array(actions.sizes)[:, None]
  outputs = np.flatnonzero(used)  # of each value of each component
  weights = np.eye(used.size, dtype=np.float32)[outputs]
  return weights, 1.0 - used.reshape(-1).astype(np.float32)
