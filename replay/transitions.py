"""What one item of a replay table holds, and how it is laid out."""

import typing

import numpy as np
from acme import specs

from slipway.replay import frames, packing, returns

# Fields that are no part of what is learned from, but of the item.
VERSION = "version"  # [] int64, of the variables that chose the first action
MOVED = "moved"  # [] uint8, frames by which o_t is ahead of o_tm1


class Transition(typing.NamedTuple):
  """An n-step transition; a batch of them has a leading [B] in each field."""

  o_tm1: typing.Any  # [...] observation, as the environment gave it
  a_tm1: typing.Any  # [] int32, or [A] float32
  r_t: typing.Any  # [] float32: sum of gamma^i * reward over k <= n steps
  discount_t: typing.Any  # [] float32: gamma^k, or 0 where terminated
  o_t: typing.Any  # [...] observation, k steps later
  # [] float32, after the first step; None: the schema does not have it.
  running_return: typing.Any = None


class TransitionSchema:
  """How a `Transition` lies in the bytes of an item.

  Whole observations: an item is a row, observations included.

  Stacks of S frames: an item is W cells, a cell is a frame and a row. The last
  cell has the newest frame of o_t and the item's row; the S last cells are o_t,
  and o_tm1 the S that end MOVED cells before the end. What is before is
  padding, other frames of the two. Cells are shared: each frame lies in the
  table once (and once more for each transition that an episode's end cut
  short).

  Items of G rows have G transitions, with whole observations.

  Attributes:
    row: packing of a row.
    observation_shape: of one observation.
    stacked_frames: S; 0: observations are whole.
    window: W, cells of an item: S and as many frames as an n-step transition
      can move on by.
    transitions_per_item: G.
    item_shape: of an item, uint8.
  """

  def __init__(
    self,
    spec: specs.EnvironmentSpec,
    n_step: int,
    stacked_frames: int = 0,
    transitions_per_item: int = 1,
    running_returns: bool = False,
  ):
    """Lays the fields out for an environment.

    Args:
      spec: of one environment.
      n_step: steps of a transition, at most.
      stacked_frames: frames in an observation, its first axis; 0: whole.
      transitions_per_item: in one row each; 1 where there are frames.
      running_returns: whether transitions have them.

    Raises:
      ValueError: one line: observations are no stack of so many uint8 frames,
        or there are frames and several transitions an item.
    """
    observations = spec.observations
    self.observation_shape = observations.shape
    self.stacked_frames = stacked_frames
    self.transitions_per_item = transitions_per_item
    self.window = stacked_frames + min(n_step, stacked_frames)
    fields: dict[str, packing.Field] = {
      "a_tm1": (spec.actions.dtype, spec.actions.shape),
      "r_t": (np.dtype(np.float32), ()),
      "discount_t": (np.dtype(np.float32), ()),
      VERSION: (np.dtype(np.int64), ()),
    }
    if running_returns:
      fields[returns.FIELD] = (np.dtype(np.float32), ())
    self.item_shape: tuple[int, ...]
    if stacked_frames:
      _check_stack(spec, stacked_frames, transitions_per_item)
      self.row = packing.Packing({**fields, MOVED: (np.dtype(np.uint8), ())})
      self.item_shape = (self.window, self.frame_bytes + self.row.row_bytes)
    else:
      whole = (observations.dtype, observations.shape)
      self.row = packing.Packing({**fields, "o_tm1": whole, "o_t": whole})
      self.item_shape = (self.row.row_bytes,)
      if transitions_per_item > 1:
        self.item_shape = (transitions_per_item, self.row.row_bytes)

  @property
  def frame_bytes(self) -> int:
    """Of the frame in a cell."""
    return frames.held_bytes(self.observation_shape)

  def kept_cells(self, num_envs: int) -> int:
    """Cells that a writer of B environments' items keeps to refer to; 0: none.

    Args:
      num_envs: B.
    """
    # What is referred to is at most 2 windows old; each step sends a cell an
    # environment, or a few where episodes end and start. An older one would be
    # sent again.
    return 4 * self.window * num_envs


def _check_stack(
  spec: specs.EnvironmentSpec, stacked_frames: int, transitions_per_item: int
) -> None:
  if transitions_per_item != 1:
    raise ValueError(
      f"config.replay.transitions_per_item={transitions_per_item} needs whole "
      f"observations, but config.adder.stacked_frames={stacked_frames}: give 1 "
      "for the one or 0 for the other"
    )
  observations = spec.observations
  shape = observations.shape
  if (
    observations.dtype != np.uint8
    or len(shape) < 2
    or shape[0] != stacked_frames
  ):
    raise ValueError(
      f"config.adder.stacked_frames={stacked_frames} takes uint8 observations "
      f"[{stacked_frames}, ...], frames first, but the environment gives "
      f"{observations.dtype} {list(shape)}: use "
      "--config.adder.stacked_frames=0"
    )
