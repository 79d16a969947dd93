"""Transitions: their fields, and their bytes in an item."""

import typing

import numpy as np
from acme import specs

from slipway.replay.items import frames, packing, returns

# Fields of an item that are not part of the transition.
VERSION = "version"  # [] int64, of the variables that chose the first action
FRAME_OFFSET = "frame_offset"  # [] uint8, frames from o_tm1 to o_t


class Transition(typing.NamedTuple):
  """An n-step transition; in a batch, each field has a leading [B]."""

  o_tm1: typing.Any  # [...] observation, as the environment returned it
  a_tm1: typing.Any  # [] int32, or [A] float32
  r_t: typing.Any  # [] float32: sum of gamma^i * reward over k <= n steps
  discount_t: typing.Any  # [] float32: gamma^k, or 0 where terminated
  o_t: typing.Any  # [...] observation, k steps later
  # [] float32, after the first step; None: the schema does not have it.
  running_return: typing.Any = None


class TransitionSchema:
  """Item schema of a `Transition`, in one of three forms.

  With whole observations, an item is one packed record.

  With stacks of S frames, an item is W frame records: a frame and a packed
  record each. The last one has the newest frame of o_t and the item's packed
  record. The frames of o_t are the last S; those of o_tm1 are the S that end
  FRAME_OFFSET frame records earlier. Frame records before these are padding:
  other frames of the two stacks. Items share frame records: the table stores
  each frame once, and once more per transition that an episode's end cuts
  short.

  With G transitions per item, an item is G packed records with whole
  observations.

  Attributes:
    record: packing of a record.
    observation_shape: shape of one observation.
    stacked_frames: S; 0: whole observations.
    frames_per_item: W, frame records per item: S, and the frames from o_tm1 to
      o_t, of which there are at most S.
    transitions_per_item: G.
    item_shape: shape of an item, uint8.
  """

  def __init__(
    self,
    spec: specs.EnvironmentSpec,
    n_step: int,
    stacked_frames: int = 0,
    transitions_per_item: int = 1,
    running_returns: bool = False,
  ):
    """Makes the schema for an environment.

    Args:
      spec: spec of one environment.
      n_step: steps of a transition, at most.
      stacked_frames: S, frames in an observation, its first axis; 0: whole
        observations.
      transitions_per_item: G; 1 with frames.
      running_returns: whether transitions have them.

    Raises:
      ValueError: observations are no stack of so many uint8 frames,
        or there are frames and several transitions per item.
    """
    observations = spec.observations
    self.observation_shape = observations.shape
    self.stacked_frames = stacked_frames
    self.transitions_per_item = transitions_per_item
    self.frames_per_item = stacked_frames + min(n_step, stacked_frames)
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
      frames.check_spec(spec, stacked_frames)
      if transitions_per_item != 1:
        raise ValueError(
          f"config.replay.transitions_per_item={transitions_per_item} needs "
          f"whole observations, but config.adder.stacked_frames="
          f"{stacked_frames}: set transitions_per_item to 1 or stacked_frames "
          "to 0"
        )
      self.record = packing.Packing(
        {**fields, FRAME_OFFSET: (np.dtype(np.uint8), ())}
      )
      self.item_shape = (
        self.frames_per_item,
        self.frame_bytes + self.record.record_bytes,
      )
    else:
      whole = (observations.dtype, observations.shape)
      self.record = packing.Packing({**fields, "o_tm1": whole, "o_t": whole})
      self.item_shape = (self.record.record_bytes,)
      if transitions_per_item > 1:
        self.item_shape = (transitions_per_item, self.record.record_bytes)

  @property
  def frame_bytes(self) -> int:
    """Bytes of the frame in a frame record."""
    return frames.padded_bytes(self.observation_shape)

  def kept_frame_records(self, num_envs: int) -> int:
    """Returns the frame records that a writer keeps for later items.

    Args:
      num_envs: B, environments of the writer.

    Returns:
      A number; 0: items have no frame records.
    """
    # Items refer to frames of at most 2 items ago. Each step sends a frame
    # record per environment, or a few where episodes end and start. An older
    # one would be sent again.
    return 4 * self.frames_per_item * num_envs
