"""Masks: reads the legal actions of environments from `info["action_mask"]`.

`reset` and `step` return the mask of the observation that they return: a bool
or integer array with ones for legal actions and zeros for others, one number
for each value of each component of an action. Each component needs a legal
value, except after the last observation of a terminated episode, which has no
action and whose mask may also be missing.
"""

from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np

from slipway.environments import spaces, user_code

# Key of the action mask in the infos that environments return.
KEY = "action_mask"
# Key of a bool [B] in the infos of gymnasium's vector environments: whether
# each environment's info had the key `KEY`.
_HAS_MASK_KEY = f"_{KEY}"


class InvalidMaskError(ValueError):
  """An action mask is missing or invalid.

  Attributes:
    index: Index of the environment in its batch, or None for all of them.
  """

  def __init__(self, index: int | None, found: str):
    """Keeps the index; `found` follows "step() returned" in messages."""
    super().__init__(found)
    self.index = index


class MaskReader:
  """Reads and checks action masks in the infos of environments.

  All environments must have the same action space.

  Attributes:
    size: M, the length of a mask.
  """

  def __init__(self, action_space: gymnasium.Space):
    sizes = np.array(spaces.component_sizes(action_space) or ())
    self.size = int(sizes.sum())
    self._starts = np.cumsum(sizes) - sizes
    # Shape of the mask of each component.
    self._shapes = [(int(size),) for size in sizes]

  def read_one(
    self, index: int, info: Any, terminated: bool
  ) -> dict[str, np.ndarray]:
    """Returns an info that has only the mask, bool [M], of another info.

    Args:
      info: Info that the environment's `reset` or `step` returned.
      terminated: Whether the episode has terminated, so that a missing mask is
        replaced by ones.

    Raises:
      InvalidMaskError: The mask is missing, or has another shape or type.
    """
    mask = info.get(KEY) if isinstance(info, Mapping) else None
    if mask is None:
      if terminated:
        return {KEY: np.ones(self.size, np.bool_)}
      raise InvalidMaskError(index, _describe_missing("info"))
    if isinstance(mask, tuple):  # as gymnasium's MultiDiscrete.sample takes it
      mask = self._join(index, mask)
    return {KEY: self._check(index, mask, (self.size,))}

  def read_batch(
    self, infos: Mapping[str, Any], terminated: np.ndarray
  ) -> np.ndarray:
    """Returns the masks, bool [B, M], in the infos of a vector environment.

    A terminated environment whose mask is missing or all zeros gets ones.

    Args:
      infos: Infos that the vector environment's `reset` or `step` returned.
      terminated: bool [B], whether each episode has terminated.

    Raises:
      InvalidMaskError: A mask is missing, has no legal action, or has another
        shape or type.
    """
    masks = infos.get(KEY)
    if masks is None:
      raise InvalidMaskError(None, _describe_missing("infos"))
    masks = self._check(None, masks, (len(terminated), self.size))
    has_mask = infos.get(_HAS_MASK_KEY)
    if has_mask is not None and not has_mask.all():
      if not (has_mask | terminated).all():
        index = int(np.argmin(has_mask | terminated))
        raise InvalidMaskError(index, _describe_missing("info"))
      masks[~has_mask] = True
    # Whether each of the K components has a legal value.
    has_legal = np.logical_or.reduceat(masks, self._starts, axis=1)  # [B, K]
    if has_legal.all():
      return masks
    has_no_action = ~has_legal.all(axis=1)  # [B]
    if (has_no_action & ~terminated).any():
      index = int(np.argmax(has_no_action & ~terminated))
      component = int(np.argmin(has_legal[index]))
      where = f" for component {component}" if len(self._starts) > 1 else ""
      raise InvalidMaskError(
        index,
        f"an info['{KEY}'] without a legal action{where}, though the episode "
        "has not terminated: allow one, or terminate",
      )
    masks[has_no_action] = True
    return masks

  def _join(self, index: int, masks: tuple[Any, ...]) -> np.ndarray:
    """Returns the masks of an action's components as one mask, [M]."""
    try:
      if [np.shape(mask) for mask in masks] == self._shapes:
        return np.concatenate(masks)
    except BaseException as error:  # lists of different lengths, or __array__
      user_code.raise_interrupt(error)
    lengths = ", ".join(str(size) for (size,) in self._shapes)
    raise InvalidMaskError(
      index,
      f"an info['{KEY}'] that is a tuple, but not of one array per component "
      f"of the action: give arrays of bools of the lengths {lengths}",
    )

  def _check(
    self, index: int | None, mask: Any, shape: tuple[int, ...]
  ) -> np.ndarray:
    """Returns a mask as a new bool array, after checking its values."""
    if not isinstance(mask, np.ndarray) or (
      mask.shape != shape or mask.dtype.kind not in "bui"
    ):
      found = f"{type(mask).__name__}"
      if isinstance(mask, np.ndarray):
        found = f"{mask.dtype} {list(mask.shape)}"
      raise InvalidMaskError(
        index,
        f"an info['{KEY}'] that is {found}: return a NumPy array of bools "
        f"{list(shape)}, True for legal actions",
      )
    legal = mask == 1
    if mask.dtype != np.bool_ and not (legal | (mask == 0)).all():
      value = mask[~legal & (mask != 0)].flat[0]
      raise InvalidMaskError(
        index,
        f"an info['{KEY}'] that contains "
        f"{user_code.format_object(value, str)}: give 1 for legal actions and "
        "0 for others",
      )
    return legal


def _describe_missing(where: str) -> str:
  """Returns the text of an `InvalidMaskError` for a missing mask."""
  return (
    f"no {where}['{KEY}'], though config.environment.action_mask is True: "
    "return it from reset() and step(), or set "
    "--config.environment.action_mask=false"
  )
