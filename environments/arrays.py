"""Arrays: specs of actions and observations that Acme lacks.

This module does not import gymnasium, so networks and losses can use it.
"""

import math
import typing
from collections.abc import Iterator, Sequence

import numpy as np
from dm_env import specs

# The largest number of joint actions that algorithms with action values
# support. Their network has one output per joint action.
MAX_JOINT_ACTIONS = 256


class MultiDiscreteArray(specs.BoundedArray):
  """Spec of int32 actions [K] with K discrete components, counted from 0.

  Attributes:
    sizes: Number of values of each of the K components.
  """

  def __init__(self, sizes: Sequence[int], name: str | None = None):
    """Makes the spec of actions whose component k is in [0, sizes[k] - 1]."""
    self.sizes = tuple(int(size) for size in sizes)
    highest = np.array(self.sizes, np.int32) - 1
    super().__init__((len(self.sizes),), np.int32, 0, highest, name)

  def __reduce__(self):
    """Returns the class and the constructor's arguments, for pickle."""
    return MultiDiscreteArray, (self.sizes, self.name)


class JointActionArray(specs.DiscreteArray):
  """Spec of joint actions: one int32 numbers the values of all components.

  Attributes:
    components: int32 [A, K], the values of the K components in each of the A
      joint actions.
  """

  def __init__(self, sizes: Sequence[int], name: str | None = None):
    """Makes the spec of all combinations of the components' values."""
    self._sizes = tuple(int(size) for size in sizes)
    super().__init__(math.prod(self._sizes), np.int32, name)
    self.components = list_joint_actions(self._sizes)

  def __reduce__(self):
    """Returns the class and the constructor's arguments, for pickle."""
    return JointActionArray, (self._sizes, self.name)


class MixedArray(specs.Array):
  """Spec of flat observations of numbers and images: float32 [N].

  The numbers come first, and after them the pixels of one image after the
  other, with values from 0 to 255.

  Attributes:
    numbers: Number of values that belong to no image.
    images: Shape of each image, of two axes or more.
  """

  def __init__(
    self,
    numbers: int,
    images: Sequence[tuple[int, ...]],
    name: str | None = None,
  ):
    self.numbers, self.images = int(numbers), tuple(map(tuple, images))
    size = self.numbers + sum(map(math.prod, self.images))
    super().__init__((size,), np.float32, name)

  def __reduce__(self):
    """Returns the class and the constructor's arguments, for pickle."""
    return MixedArray, (self.numbers, self.images, self.name)

  def image_slices(self) -> Iterator[tuple[slice, tuple[int, ...]]]:
    """Yields the columns and the shape of each image."""
    start = self.numbers
    for shape in self.images:
      stop = start + math.prod(shape)
      yield slice(start, stop), shape
      start = stop


class MaskedArray(specs.Array):
  """Spec of flat observations that are followed by their action masks: [N + M].

  N is the number of values of an observation. M is the number of actions; for
  actions with several components, the sum of the components' sizes. The mask
  has ones for legal actions. Observation and mask are one array, so they are
  always stored and sent together.

  Attributes:
    observation: Spec of the observation without the mask, with N values.
    mask_size: M, the length of a mask.
  """

  def __init__(self, observation: specs.Array, mask_size: int):
    self.observation, self.mask_size = observation, int(mask_size)
    size = math.prod(observation.shape) + self.mask_size
    super().__init__((size,), observation.dtype, observation.name)

  def __reduce__(self):
    """Returns the class and the constructor's arguments, for pickle."""
    return MaskedArray, (self.observation, self.mask_size)

  def join(self, observation: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Joins observations [B, ...] and masks [B, M] to one array [B, N + M]."""
    joined = np.empty((len(observation), *self.shape), self.dtype)
    joined[:, : -self.mask_size] = observation.reshape(len(observation), -1)
    joined[:, -self.mask_size :] = mask
    return joined

  def split(self, joined: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Splits an array [B, N + M] into observations and masks.

    Returns:
      Observations [B, ...] and masks, bool [B, M].
    """
    observation = joined[:, : -self.mask_size]
    return (
      observation.reshape(len(joined), *self.observation.shape),
      joined[:, -self.mask_size :] != 0,
    )


def list_joint_actions(sizes: Sequence[int]) -> np.ndarray:
  """Lists all combinations of the values of an action's components.

  The last component changes fastest.

  Returns:
    Values of the K components of each of the A joint actions, int32 [A, K].
  """
  indices = np.unravel_index(np.arange(math.prod(sizes)), tuple(sizes))
  return np.stack(indices, axis=1).astype(np.int32)


def component_sizes(actions: specs.Array) -> tuple[int, ...] | None:
  """Returns the number of values of each component of a discrete action.

  Returns:
    A tuple with one number per component, or None for continuous actions.
  """
  if isinstance(actions, MultiDiscreteArray):
    return actions.sizes
  if isinstance(actions, specs.DiscreteArray):
    return (actions.num_values,)
  return None


def remove_mask(spec: typing.Any) -> specs.Array:
  """Returns the spec of observations without action masks.

  Args:
    spec: Spec of observations; without masks, the result is `spec` itself.
  """
  return spec.observation if isinstance(spec, MaskedArray) else spec


def sample_actions(
  observations: specs.Array,
  actions: specs.Array,
  observation: np.ndarray,
  random: np.random.Generator,
) -> np.ndarray:
  """Samples actions uniformly: legal discrete ones, or all within the bounds.

  Args:
    observation: Observations, including masks if their spec has masks.
      # [B, ...]

  Returns:
    Actions of the spec `actions`.  # [B, ...]
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
