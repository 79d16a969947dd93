"""Masks: which actions an environment allows, from `info["action_mask"]`.

`reset` and `step` return the mask of the observation that they return: a bool
or integer array of ones for legal actions and zeros for others, one number for
each value of each component of an action. A component without a legal value is
an error, but for the last observation of a terminated episode, on which nothing
acts and whose mask may be missing, too.
"""

from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np

from slipway.environments import spaces, user_code

KEY = "action_mask"
_GIVEN = f"_{KEY}"  # bool [B]: which environments' infos had the key


class InvalidMaskError(ValueError):
  """A mask is missing, or of no use.

  Attributes:
    index: Of the environment in its batch; None: all of them.
  """

  def __init__(self, index: int | None, what: str):
    """Takes what the call "returned"."""
    super().__init__(what)
    self.index = index


class MaskReader:
  """Reads the masks of environments of one action space.

  Attributes:
    size: M, numbers in a mask.
  """

  def __init__(self, action_space: gymnasium.Space):
    """Reads masks for a Discrete, MultiDiscrete or MultiBinary."""
    sizes = np.array(spaces.component_sizes(action_space) or ())
    self.size = int(sizes.sum())
    self._starts = np.cumsum(sizes) - sizes

  def read_one(
    self, index: int, info: Any, terminated: bool
  ) -> dict[str, np.ndarray]:
    """Returns the mask, bool [M], in the info of one environment.

    Args:
      index: Of the environment in its batch.
      info: As `reset` or `step` returned it.
      terminated: The episode has terminated.

    Raises:
      InvalidMaskError: There is none, or of another shape or type.
    """
    mask = info.get(KEY) if isinstance(info, Mapping) else None
    if mask is None:
      if terminated:
        return {KEY: np.ones(self.size, np.bool_)}
      raise InvalidMaskError(index, _missing("info"))
    if isinstance(mask, tuple):  # as gymnasium's MultiDiscrete.sample takes it
      mask = np.concatenate(mask)
    return {KEY: self._check(index, mask, (self.size,))}

  def read_batch(
    self, infos: Mapping[str, Any], terminated: np.ndarray
  ) -> np.ndarray:
    """Returns the masks, bool [B, M], in the infos of a vector environment.

    Args:
      infos: As the vector environment's `reset` or `step` returned them.
      terminated: [B] bool.

    Raises:
      InvalidMaskError: An environment has none or no legal action, or masks are
        of another shape or type.
    """
    masks = infos.get(KEY)
    if masks is None:
      raise InvalidMaskError(None, _missing("infos"))
    masks = self._check(None, masks, (len(terminated), self.size))
    given = infos.get(_GIVEN)
    if given is not None and not given.all():
      if not (given | terminated).all():
        index = int(np.argmin(given | terminated))
        raise InvalidMaskError(index, _missing("info"))
      masks[~given] = True
    legal = np.logical_or.reduceat(masks, self._starts, axis=1)  # [B, K]
    if legal.all():
      return masks
    stuck = ~legal.all(axis=1)
    if (stuck & ~terminated).any():
      index = int(np.argmax(stuck & ~terminated))
      component = int(np.argmin(legal[index]))
      of = f" for component {component}" if len(self._starts) > 1 else ""
      raise InvalidMaskError(
        index,
        f"an info['{KEY}'] without a legal action{of}, though the episode has "
        "not terminated: allow one, or terminate",
      )
    masks[stuck] = True
    return masks

  def _check(
    self, index: int | None, mask: Any, shape: tuple[int, ...]
  ) -> np.ndarray:
    """Returns a mask of this shape as a new array of bools."""
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
        f"an info['{KEY}'] that contains {user_code.show(value, str)}: give 1 "
        "for legal actions and 0 for others",
      )
    return legal


def _missing(where: str) -> str:
  return (
    f"no {where}['{KEY}'], though config.environment.action_mask is True: "
    "return it from reset() and step(), or set "
    "--config.environment.action_mask=false"
  )
