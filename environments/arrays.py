"""Arrays: specs of actions and observations that Acme lacks.

Nothing here imports gymnasium, so networks and losses can use it.
"""

import math
import typing
from collections.abc import Sequence

import numpy as np
from dm_env import specs

# Joint actions that an algorithm of action values can tell apart: each has an
# output of its network.
MOST_JOINT_ACTIONS = 256


class MultiDiscreteArray(specs.BoundedArray):
  """Actions of K components int32 [K]; component k counts from 0.

  Attributes:
    sizes: The number of values of each component.
  """

  def __init__(self, sizes: Sequence[int], name: str | None = None):
    """Describes actions whose component k has `sizes[k]` values."""
    self.sizes = tuple(int(size) for size in sizes)
    highest = np.array(self.sizes, np.int32) - 1
    super().__init__((len(self.sizes),), np.int32, 0, highest, name)

  def __reduce__(self):
    return MultiDiscreteArray, (self.sizes, self.name)


class JointActionArray(specs.DiscreteArray):
  """Numbers of joint actions: each stands for a value of every component.

  Attributes:
    components: The values of the components, by joint action.  # [A, K] int32
  """

  def __init__(self, sizes: Sequence[int], name: str | None = None):
    """Numbers the actions of a `MultiDiscreteArray` of these sizes."""
    self._sizes = tuple(int(size) for size in sizes)
    super().__init__(math.prod(self._sizes), np.int32, name)
    self.components = list_joint_actions(self._sizes)

  def __reduce__(self):
    return JointActionArray, (self._sizes, self.name)


class MaskedArray(specs.Array):
  """Flat observations, each followed by its action mask: [N + M].

  The mask travels with the observation, so whatever stores or forwards the one
  has the other. A one marks a legal action. M is the number of actions, or the
  sum of the sizes of an action's components, one component after the other.

  Attributes:
    observation: The spec of the observation alone, of N numbers.
    mask_size: M.
  """

  def __init__(self, observation: specs.Array, mask_size: int):
    """Describes `observation` followed by a mask of `mask_size`."""
    self.observation, self.mask_size = observation, int(mask_size)
    size = math.prod(observation.shape) + self.mask_size
    super().__init__((size,), observation.dtype, observation.name)

  def __reduce__(self):
    return MaskedArray, (self.observation, self.mask_size)

  def join(self, observation: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Returns [B, N + M] of observations [B, ...] and masks [B, M]."""
    joined = np.empty((len(observation), *self.shape), self.dtype)
    joined[:, : -self.mask_size] = observation.reshape(len(observation), -1)
    joined[:, -self.mask_size :] = mask
    return joined

  def split(self, joined: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns observations [B, ...], and masks bool [B, M], of [B, N + M]."""
    observation = joined[:, : -self.mask_size]
    return (
      observation.reshape(len(joined), *self.observation.shape),
      joined[:, -self.mask_size :] != 0,
    )


def list_joint_actions(sizes: Sequence[int]) -> np.ndarray:
  """Lists all values of components; the last component changes fastest.

  Returns:
    int32 [A, K], where A is the product of the sizes and K their count.
  """
  indices = np.unravel_index(np.arange(math.prod(sizes)), tuple(sizes))
  return np.stack(indices, axis=1).astype(np.int32)


def component_sizes(actions: specs.Array) -> tuple[int, ...] | None:
  """Returns the sizes of discrete actions' components; None: not discrete."""
  if isinstance(actions, MultiDiscreteArray):
    return actions.sizes
  if isinstance(actions, specs.DiscreteArray):
    return (actions.num_values,)
  return None


def remove_mask(observations: typing.Any) -> specs.Array:
  """Returns the spec of the observations without their action masks."""
  if isinstance(observations, MaskedArray):
    return observations.observation
  return observations


def sample_actions(
  observations: specs.Array,
  actions: specs.Array,
  observation: np.ndarray,
  random: np.random.Generator,
) -> np.ndarray:
  """Samples actions [B, ...] uniformly; of masked ones, legal ones only.

  Args:
    observations: The spec of the observations.
    actions: The spec of the actions.
    observation: What is acted on.  # [B, ...]
    random: Of the samples.
  """
  batch_size, sizes = len(observation), component_sizes(actions)
  if sizes is None:
    assert isinstance(actions, specs.BoundedArray)
    shape = (batch_size, *actions.shape)
    sampled = random.uniform(actions.minimum, actions.maximum, shape)
    return sampled.astype(actions.dtype)
  chances = random.random((batch_size, sum(sizes)))
  if isinstance(observations, MaskedArray):
    chances *= observations.split(observation)[1]
  parts = np.split(chances, np.cumsum(sizes)[:-1], axis=1)
  sampled = np.stack([part.argmax(axis=1) for part in parts], axis=1)
  return sampled.reshape(batch_size, *actions.shape).astype(actions.dtype)
