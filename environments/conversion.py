"""Conversion: converts values between a gymnasium space and the agents' spec.

Agents use the values of `specs`: float32 or uint8 observations, and actions
that count from 0 or are in [-1, 1]. Environments and recorded episodes use the
values of the space. The names of functions say whether they convert batches to
the spec or to the space.
"""

import math
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
from dm_env import specs
from gymnasium import spaces

from slipway.environments import arrays, checked
from slipway.environments import spaces as spaces_lib

_LARGEST_EXACT = 2**24  # the integers up to this one are exact in float32
# A function that converts a batch of values [B, ...] to another array.
Convert = Callable[[np.ndarray], np.ndarray]


def make_observation_converter_to_spec(
  space: gymnasium.Space, dtype: np.dtype, copy: bool
) -> Callable[[Any], np.ndarray]:
  """Makes the function that converts a space's observations to the spec's.

  The function takes a batch in the space's structure, with [B, ...] in each
  leaf, and returns one array [B, ...]. It raises `checked.EnvironmentFault` for
  a discrete value that is not in the space.

  Args:
    space: Observation space of one environment, supported by `specs`.
    dtype: Data type of the spec's observations.
    copy: Whether the result for a Box must be a new array. Otherwise an array
      that already has `dtype` is returned unchanged.
  """
  box = spaces_lib.only_box(space)
  if box is None:
    return _make_flattener(space)
  (leaf,) = spaces_lib.leaves(space)
  if copy or dtype != box.dtype:
    convert = lambda values: np.array(values, dtype, order="C")  # noqa: E731
  else:
    convert = lambda values: values  # noqa: E731
  if not leaf.path:
    return convert
  return lambda batch: convert(spaces_lib.select(batch, leaf.path))


def _make_flattener(space: gymnasium.Space) -> Callable[[Any], np.ndarray]:
  """Makes the function that converts structured observations to vectors."""
  slices = list(spaces_lib.leaf_slices(space))
  size = sum(leaf.size for leaf, _ in slices)

  def flatten(observations: Any) -> np.ndarray:
    """Converts a batch of structured observations to vectors [B, N]."""
    parts = [spaces_lib.select(observations, leaf.path) for leaf, _ in slices]
    vectors = np.zeros((len(parts[0]), size), np.float32)
    for (leaf, columns), values in zip(slices, parts, strict=True):
      _write_leaf(leaf, np.asarray(values), vectors[:, columns])
    return vectors

  return flatten


def _write_leaf(
  leaf: spaces_lib.Leaf, values: np.ndarray, vectors: np.ndarray
) -> None:
  """Writes a leaf's values [B, ...] to its columns of the vectors."""
  values = values.reshape(len(values), -1)
  space: Any = leaf.space
  if not isinstance(space, (spaces.Discrete, spaces.MultiDiscrete)):
    if isinstance(space, spaces.MultiBinary):
      _raise_outside(leaf, values, (values < 0) | (values > 1))
    vectors[...] = values
    return
  sizes = np.array(spaces_lib.component_sizes(space))
  # In int64, since NumPy's difference of uint64 and int64 is a float.
  start = np.asarray(space.start).astype(np.int64).reshape(-1)
  values = values.astype(np.int64, casting="same_kind", copy=False)
  index = values - start  # [B, K], counted from 0
  _raise_outside(leaf, values, (index < 0) | (index >= sizes))
  offsets = np.cumsum(sizes) - sizes
  vectors[np.arange(len(values))[:, None], index + offsets] = 1


def _raise_outside(
  leaf: spaces_lib.Leaf, values: np.ndarray, outside: np.ndarray
) -> None:
  """Raises `checked.EnvironmentFault` for the first row outside."""
  rows = outside.any(axis=1)
  if not rows.any():
    return
  env = int(np.argmax(rows))
  shown = values[env] if values.shape[1] > 1 else values[env, 0]
  raise checked.EnvironmentFault(
    env,
    f"the observation{spaces_lib.subscripts(leaf.path)} {shown} is not in its "
    f"observation_space {spaces_lib.one_line(leaf.space)}: correct one of them",
  )


def make_recorded_space(
  space: gymnasium.Space, observations: specs.Array
) -> gymnasium.Space:
  """Returns the space in which recordings store an environment's observations.

  Discrete spaces, and Boxes without images, are returned unchanged. For other
  spaces, for images, which Minari would store as lossy JPEG, and for integers
  that float32 can't hold, the result is a Box of vectors.
  """
  if isinstance(space, spaces.Discrete):
    return space
  is_box = isinstance(space, spaces.Box)
  if is_box and not _is_image(space) and _is_exact(space):
    return space
  size, dtype = math.prod(observations.shape), observations.dtype
  if dtype == np.uint8:
    return spaces.Box(0, 255, (size,), np.uint8)
  return spaces.Box(-np.inf, np.inf, (size,), np.float32)


def convert_observations_to_space(
  space: gymnasium.Space, observations: np.ndarray
) -> np.ndarray:
  """Converts observations of the spec to observations of a space.

  Args:
    space: Result of `make_recorded_space`: a Discrete or a Box.
    observations: Observations of the spec, without masks.  # [B, ...]
  """
  if isinstance(space, spaces.Discrete):
    return observations.argmax(axis=1) + int(space.start)
  shape: Any = space.shape
  own = observations.reshape(len(observations), *shape)
  return own.astype(space.dtype, copy=False)


def make_action_converter_to_space(space: gymnasium.Space) -> Convert | None:
  """Makes the function that converts actions of the spec to a space's actions.

  Actions for a Box are clipped to [-1, 1] and rescaled. -1 becomes exactly the
  Box's lower bound, and 1 its upper bound. Those of all axes are one vector
  [B, N], in C order.

  Actions for a MultiDiscrete or MultiBinary are values of the components
  [B, K], or numbers of joint actions [B] (`arrays.JointActionArray`).

  Args:
    space: Action space of one environment: Discrete, MultiDiscrete,
      MultiBinary, or a Box of bounded floats.

  Returns:
    The function, or None if the actions of spec and space are equal.
  """
  if isinstance(space, spaces.Discrete):
    dtype, start = space.dtype, int(space.start)
    if not np.can_cast(np.int32, dtype):
      offset = np.array(start, dtype)
      return lambda actions: actions.astype(dtype) + offset
    return (lambda actions: actions + start) if start else None
  if isinstance(space, (spaces.MultiDiscrete, spaces.MultiBinary)):
    return _make_component_converter_to_space(space)
  low, high, dtype = *_bounds(space), space.dtype
  shape: Any = space.shape

  def rescale(actions: np.ndarray) -> np.ndarray:
    """Converts actions in [-1, 1] to the bounds of the Box."""
    # In float64, so that rounding to float32 can't exceed the bounds.
    fraction = (np.clip(actions, -1.0, 1.0).astype(np.float64) + 1.0) * 0.5
    own = low * (1.0 - fraction) + high * fraction
    if dtype == np.float64:
      own = np.minimum(np.maximum(own, low), high)
    own = own.astype(dtype, copy=False)
    return own.reshape(len(own), *shape)

  return rescale


def convert_actions_to_space_with(
  ops: Any, space: gymnasium.Space, actions: Any
) -> Any:
  """Converts actions of the spec to actions of the space, by given operations.

  The result equals that of the function that `make_action_converter_to_space`
  makes, up to rounding and data types.

  Args:
    ops: array operations `clip`, `minimum`, `maximum`, `take` and `reshape`,
      such as those of an exported graph.
    space: action space of one environment, as for
      `make_action_converter_to_space`.
    actions: actions [B, ...] of the spec, which count from 0 or are in [-1, 1];
      or numbers of joint actions [B].
  """
  if isinstance(space, spaces.Discrete):
    return actions + np.int32(space.start)
  shape: Any = space.shape
  if isinstance(space, (spaces.MultiDiscrete, spaces.MultiBinary)):
    if len(actions.shape) == 1:
      sizes = spaces_lib.component_sizes(space) or ()
      actions = ops.take(arrays.list_joint_actions(sizes), actions)
    start = np.reshape(getattr(space, "start", 0), -1).astype(np.int32)
    return ops.reshape(actions + start, (-1, *shape))
  low, high = _round_bounds_inwards(space)
  fraction = (ops.clip(actions, -1.0, 1.0) + 1.0) * np.float32(0.5)
  # The difference of high and low may be infinite in float32.
  own = low * (np.float32(1.0) - fraction) + high * fraction
  own = ops.minimum(ops.maximum(own, low), high)
  return own if len(shape) == 1 else ops.reshape(own, (-1, *shape))


def convert_actions_to_spec(
  space: gymnasium.Space, actions: np.ndarray
) -> np.ndarray:
  """Converts actions of the space to actions of the spec.

  Values outside of a Box's bounds become -1 or 1; a dimension whose bounds are
  equal becomes 0.

  Args:
    actions: Actions of the space.  # [B, ...]

  Returns:
    Actions [B, ...]: int32 that count from 0, or float32 [B, N] in [-1, 1].
  """
  if isinstance(space, spaces.Discrete):
    return (actions - int(space.start)).astype(np.int32)
  if isinstance(space, (spaces.MultiDiscrete, spaces.MultiBinary)):
    counted = actions - getattr(space, "start", 0)
    return counted.reshape(len(actions), -1).astype(np.int32)
  low, high = _bounds(space)
  width = np.where(high > low, high - low, 1.0)
  own = actions.reshape(len(actions), -1)
  scaled = (2.0 * own - low - high) / width
  return np.clip(scaled, -1.0, 1.0).astype(np.float32)


def _make_component_converter_to_space(
  space: spaces.MultiDiscrete | spaces.MultiBinary,
) -> Convert:
  shape: Any = space.shape
  start = np.reshape(getattr(space, "start", 0), -1)
  sizes = spaces_lib.component_sizes(space) or ()

  def convert(actions: np.ndarray) -> np.ndarray:
    """Converts actions [B, K] or [B] of the spec to those of the space."""
    if actions.ndim == 1:
      actions = np.stack(np.unravel_index(actions, sizes), axis=1)
    own = (actions + start).astype(space.dtype, copy=False)
    return own.reshape(len(own), *shape)

  return convert


def _is_image(space: spaces.Box) -> bool:
  """Returns whether Minari would store observations of a Box as JPEG images."""
  shape = space.shape
  if space.dtype != np.uint8 or len(shape) not in (2, 3):
    return False
  return len(shape) == 2 or shape[-1] in (1, 3) or min(shape[:2]) >= 32


def _is_exact(space: spaces.Box) -> bool:
  """Returns whether float32 holds all integers of a Box, if it has integers."""
  low, high = _bounds(space)
  is_small = low.min() >= -_LARGEST_EXACT and high.max() <= _LARGEST_EXACT
  return space.dtype.kind not in "iu" or bool(is_small)


def _bounds(space: Any) -> tuple[np.ndarray, np.ndarray]:
  """Returns the lower and upper bounds of a Box of N numbers, float64 [N]."""
  low, high = (x.astype(np.float64) for x in (space.low, space.high))
  return low.reshape(-1), high.reshape(-1)


def _round_bounds_inwards(space: Any) -> tuple[np.ndarray, np.ndarray]:
  """Returns bounds of a Box of N numbers, finite float32 [N] within its own."""
  low, high = _bounds(space)
  with np.errstate(over="ignore"):
    low32, high32 = low.astype(np.float32), high.astype(np.float32)
  inf = np.float32(np.inf)
  return (
    np.where(low32 < low, np.nextafter(low32, inf), low32),
    np.where(high32 > high, np.nextafter(high32, -inf), high32),
  )
