"""Inputs: reads the observations and masks that a user gives to a policy."""

import typing
from collections.abc import Sequence

import gymnasium
import numpy as np

from slipway.environments import masks, spaces, specs


class InputReader:
  """Converts observations and masks of one environment to checked batches.

  They may have lists and tuples instead of arrays.
  """

  def __init__(
    self,
    observation_space: gymnasium.Space,
    action_space: gymnasium.Space,
    bounded: bool = False,
  ):
    """Makes a reader of the values of one environment's spaces.

    Args:
      bounded: whether observations beyond the space's bounds are errors.
    """
    self._bounded = bounded
    self._space = observation_space
    self._leaves = list(spaces.leaves(observation_space))
    self._masks = masks.MaskReader(action_space)

  def read_observation(
    self, observation: typing.Any
  ) -> tuple[bool, typing.Any]:
    """Returns an observation as a batch.

    Returns:
      Whether the argument is a single observation, and the batch: the space's
      structure, with an array [B, ...] of the space's type in each leaf.

    Raises:
      ValueError: the observation is neither an element of the space nor a
        batch of elements.
    """
    values = [_read_leaf(observation, leaf) for leaf in self._leaves]
    found = [None if x is None else x.shape for x in values]
    wanted = [tuple(leaf.space.shape or ()) for leaf in self._leaves]
    is_single = found == wanted
    sizes = {shape[:1] for shape in found if shape is not None}
    size = sizes.pop() if len(sizes) == 1 else ()  # (B,), if it is a batch
    if not is_single and found != [(*size, *shape) for shape in wanted]:
      raise ValueError(
        f"observation has shape {_format_shapes(found)}, so there is no action "
        f"for it: give one of shape {_format_shapes(wanted)}"
      )
    if size == (0,) and not is_single:
      raise ValueError(
        "observation is a batch of 0 observations, so there is no action: give "
        "at least one"
      )
    parts = [
      _cast_exactly(x[None] if is_single else x, leaf)
      for x, leaf in zip(values, self._leaves, strict=True)
      if x is not None
    ]
    if self._bounded:
      for part, leaf in zip(parts, self._leaves, strict=True):
        check_bounds(part, leaf)
    return is_single, spaces.nest(self._space, iter(parts))

  def read_masks(self, mask: typing.Any, batch_size: int) -> np.ndarray:
    """Returns the masks bool [B, M] of B observations.

    Args:
      mask: mask [M] of all observations, masks [B, M], or a tuple of those of
        an action's components.

    Raises:
      ValueError: the argument is no mask, or a component of an action has no
        legal value.
    """
    if isinstance(mask, tuple):
      mask = np.concatenate([np.atleast_1d(part) for part in mask], axis=-1)
    mask = np.atleast_2d(mask)
    if len(mask) == 1:
      mask = np.repeat(mask, batch_size, axis=0)
    terminated = np.zeros(batch_size, np.bool_)
    try:
      return self._masks.read_batch({masks.KEY: mask}, terminated)
    except masks.InvalidMaskError as error:
      raise ValueError(
        f"no action can be chosen with the mask, which is {error}"
      ) from error


def _read_leaf(observation: typing.Any, leaf: spaces.Leaf) -> np.ndarray | None:
  """Returns the array at a leaf of an observation, or None if there is none."""
  try:
    values = np.asarray(spaces.select(observation, leaf.path))
  except (KeyError, IndexError, TypeError, ValueError):
    return None
  return values if values.dtype.kind in "biuf" else None


def _cast_exactly(values: np.ndarray, leaf: spaces.Leaf) -> np.ndarray:
  """Returns values [B, ...] in the type of their space, as environments do."""
  dtype: typing.Any = leaf.space.dtype
  if not np.isfinite(values).all():
    raise ValueError(
      f"observation{spaces.subscripts(leaf.path)} has nan or inf, so there is "
      "no action for it: give finite numbers, as in the training"
    )
  if values.dtype == dtype:
    return values
  with np.errstate(invalid="ignore", over="ignore"):
    cast = values.astype(dtype)
  if dtype.kind != "f" and (cast != values).any():
    raise ValueError(
      f"observation{spaces.subscripts(leaf.path)} is {values.dtype}, with "
      f"values that {dtype} lacks, so there is no action for it: give elements "
      f"of {spaces.one_line(leaf.space)}"
    )
  return cast


def check_bounds(values: np.ndarray, leaf: spaces.Leaf) -> None:
  """Raises ValueError if values [B, ...] of a leaf are beyond its bounds."""
  if not isinstance(leaf.space, gymnasium.spaces.Box):
    return
  low, high = leaf.space.low, leaf.space.high
  outside = (values < low) | (values > high)
  if leaf.space.dtype.kind == "f":  # rounding is no error
    outside &= ~np.isclose(values, np.clip(values, low, high), atol=1e-6)
  if outside.any():
    raise ValueError(
      f"observation{spaces.subscripts(leaf.path)} has {values[outside][0]}, "
      f"beyond {spaces.one_line(leaf.space)}, as if the wrappers of the config "
      "had not changed it, so there is no action for it: step the environment "
      "of policy.make_environment()"
    )


def check_size(observations: np.ndarray) -> None:
  """Raises ValueError for observations beyond the sizes of environments'.

  Observations [B, ...] must be finite, and at most `specs.LARGEST`.
  """
  small = np.abs(observations) <= specs.LARGEST
  if not small.all():
    raise ValueError(
      f"observation has {observations[~small][0]:g} (as float32), so there is "
      f"no action for it: give numbers of at most {specs.LARGEST:g} in size"
    )


def _format_shapes(shapes: Sequence[tuple[int, ...] | None]) -> str:
  """Returns the shapes of an observation's arrays as text."""
  shown = ["no numbers" if s is None else str(list(s)) for s in shapes]
  return shown[0] if len(shown) == 1 else f"({', '.join(shown)})"
