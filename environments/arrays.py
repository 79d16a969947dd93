"""Arrays: specs of actions and observations that Acme lacks.

Nothing here imports gymnasium, so networks and losses can use it.
"""

import math
import typing
from collections.abc import Sequence

import numpy as np
from dm_env import specs

# Most joint actions that algorithms of action values support: the network has
# one output for each of them.
MAX_JOINT_ACTIONS = 256


class MultiDiscreteArray(specs.BoundedArray):
  """Spec of actions int32 [K] with K components, each counted from 0.

  Attributes:
    sizes: The number of values of each component.
  """

  def __init__(self, sizes: Sequence[int], name: str | None = None):
    """Makes the spec of actions whose component k has `sizes[k]` values."""
    self.sizes = tuple(int(size) for size in sizes)
    highest = np.array(self.sizes, np.int32) - 1
    super().__init__((len(self.sizes),), np.int32, 0, highest, name)

  def __reduce__(self):
    return MultiDiscreteArray, (self.sizes, self.name)


class JointActionArray(specs.DiscreteArray):
  """Spec of joint actions: one number stands for the values of all components.

  Attributes:
    components: int32 [A, K], the values of the K components for each of the A
      joint actions.
  """

  def __init__(self, sizes: Sequence[int], name: str | None = None):
    """Enumerates all combinations of K components with `sizes[k]` values."""
    self._sizes = tuple(int(size) for size in sizes)
    super().__init__(math.prod(self._sizes), np.int32, name)
    self.components = list_joint_actions(self._sizes)

  def __reduce__(self):
    return JointActionArray, (self._sizes, self.name)


class MaskedArray(specs.Array):
  """Spec of flat observations, each followed by its action mask: [N + M].

  N is the number of values of an observation. M is the number of actions, or
  the sum of the sizes of an action's components, one component after the other.
  A one marks a legal action. Observation and mask are one array, so they are
  always stored and sent together.

  Attributes:
    observation: Spec of the observation without the mask, with N values.
    mask_size: M, the length of a mask.
  """

  def __init__(self, observation: specs.Array, mask_size: int):
    """Makes the spec of `observation` followed by a mask of `mask_size`."""
    self.observation, self.mask_size = observation, int(mask_size)
    size = math.prod(observation.shape) + self.mask_size
    super().__init__((size,), observation.dtype, observation.name)

  def __reduce__(self):
    return MaskedArray, (self.observation, self.mask_size)

  def join(self, observation: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Joins observations [B, ...] and masks [B, M] to arrays [B, N + M]."""
    joined = np.empty((len(observation), *self.shape), self.dtype)
    joined[:, : -self.mask_size] = observation.reshape(len(observation), -1)
    joined[:, -self.mask_size :] = mask
    return joined

  def split(self, joined: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Splits [B, N + M] into observations [B, ...] and masks bool [B, M]."""
    observation = joined[:, : -self.mask_size]
    return (
      observation.reshape(len(joined), *self.observation.shape),
      joined[:, -self.mask_size :] != 0,
    )


def list_joint_actions(sizes: Sequence[int]) -> np.ndarray:
  """Lists all joint actions; the last component changes fastest.

  Returns:
    Values of the K components of each of the A joint actions, int32 [A, K].
  """
  indices = np.unravel_index(np.arange(math.prod(sizes)), tuple(sizes))
  return np.stack(indices, axis=1).astype(np.int32)


def component_sizes(actions: specs.Array) -> tuple[int, ...] | None:
  """Returns each component's number of values; None for continuous actions."""
  if isinstance(actions, MultiDiscreteArray):
    return actions.sizes
  if isinstance(actions, specs.DiscreteArray):
    return (actions.num_values,)
  return None


def remove_mask(spec: typing.Any) -> specs.Array:
  """Returns a spec of observations without their action masks."""
  return spec.observation if isinstance(spec, MaskedArray) else spec


def sample_actions(
  observations: specs.Array,
  actions: specs.Array,
  observation: np.ndarray,
  random: np.random.Generator,
) -> np.ndarray:
  """Samples actions [B, ...] uniformly among the legal ones.

  Args:
    observations: Spec of the observations.
    actions: Spec of the actions.
    observation: Observations, which contain any masks.  # [B, ...]
    random: Source of random numbers.
  """
  batch_size, sizes = len(observation), component_sizes(actions)
  if sizes is None:
    assert isinstance(actions, specs.BoundedArray)
    shape = (batch_size, *actions.shape)
    sampled = random.uniform(actions.minimum, actions.maximum, shape)
    return sampled.astype(actions.dtype)
  # Each of several uniform numbers has the same chance to be the largest; those
  # of illegal actions become 0.
  scores = random.random((batch_size, sum(sizes)))
  if isinstance(observations, MaskedArray):
    scores *= observations.split(observation)[1]
  parts = np.split(scores, np.cumsum(sizes)[:-1], axis=1)
  sampled = np.stack([part.argmax(axis=1) for part in parts], axis=1)
  return sampled.reshape(batch_size, *actions.shape).astype(actions.dtype)
