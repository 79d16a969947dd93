"""N-step transitions: their fields, and their item schema."""

import typing

import numpy as np
from acme import specs

from slipway.replay.items import frames, packing, returns

# Name of the record's field with the version of the variables that chose the
# first action, int64 []. The field is not part of a `Transition`.
VERSION = "version"

# Name of the record's field with the number of frames from o_tm1 to o_t, uint8
# []. The field is not part of a `Transition`.
FRAME_OFFSET = "frame_offset"

# Name of the record's optional field with the action at o_t.
NEXT_ACTION = "a_t"


class Transition(typing.NamedTuple):
  """An n-step transition; in a batch, each field has a leading [B].

  A transition has k <= n steps, fewer than n if its episode ends earlier.

  Attributes:
    o_tm1: observation before the first step, [...].
    a_tm1: action of the first step, int32 [] or float32 [A].
    r_t: sum of gamma^i * reward over the k steps, float32 [].
    discount_t: gamma^k, or 0 where terminated, float32 [].
    o_t: observation after the last step, [...].
    running_return: running return of the episode after the first step, float32
      []; None: the schema does not have this field.
    a_t: action at o_t, as a_tm1; None: the schema does not have this field.
  """

  o_tm1: typing.Any
  a_tm1: typing.Any
  r_t: typing.Any
  discount_t: typing.Any
  o_t: typing.Any
  running_return: typing.Any = None
  a_t: typing.Any = None


class TransitionSchema:
  """Item schema of a `Transition`, in one of three forms.

  With whole observations, an item is one packed record.

  With stacks of S frames, an item is W frame records, each a frame and a packed
  record. The last frame record has the newest frame of o_t and the item's
  fields. The last S frames are o_t. The S frames that end FRAME_OFFSET frame
  records earlier are o_tm1. Frame records before these are padding: other
  frames of the two stacks. Items share frame records: the table stores each
  frame once, and once more per transition that an episode's end cuts short.

  With G transitions per item, an item is G packed records with whole
  observations.

  Attributes:
    record: packing of a record.
    observation_shape: shape of one observation.
    stacked_frames: S, frames of an observation; 0: whole observations.
    frames_per_item: W, frame records per item: S, plus the maximum number of
      frames from o_tm1 to o_t, which is at most S.
    transitions_per_item: G, transitions per item.
    item_shape: shape of an item, whose dtype is uint8.
  """

  def __init__(
    self,
    spec: specs.EnvironmentSpec,
    n_step: int,
    stacked_frames: int = 0,
    transitions_per_item: int = 1,
    running_returns: bool = False,
    next_actions: bool = False,
  ):
    """Makes the schema for an environment's specs.

    Args:
      n_step: maximum number of steps of a transition.
      stacked_frames: S, the frames of an observation [S, ...], which are stored
        once each; 0: observations are stored whole.
      transitions_per_item: G; must be 1 with stacked frames.
      running_returns: whether transitions have the field `running_return`.
      next_actions: whether they have the field `a_t`.

    Raises:
      ValueError: observations are not uint8 [stacked_frames, ...], or there are
        stacked frames and several transitions per item.
    """
    observations = spec.observations
    self.observation_shape = observations.shape
    self.stacked_frames = stacked_frames
    self.transitions_per_item = transitions_per_item
    self.frames_per_item = stacked_frames + min(n_step, stacked_frames)
    self._n_step = n_step
    fields: dict[str, packing.Field] = {
      "a_tm1": (spec.actions.dtype, spec.actions.shape),
      "r_t": (np.dtype(np.float32), ()),
      "discount_t": (np.dtype(np.float32), ()),
      VERSION: (np.dtype(np.int64), ()),
    }
    if running_returns:
      fields[returns.FIELD] = (np.dtype(np.float32), ())
    if next_actions:
      fields[NEXT_ACTION] = fields["a_tm1"]
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
    """Bytes of the frame in a frame record, a multiple of 8."""
    return frames.padded_frame_bytes(self.observation_shape)

  @property
  def ring_steps(self) -> int:
    """Number of steps for which an adder keeps the frames of stacks."""
    return self._n_step + self.stacked_frames

  def unpack(self, data: typing.Any) -> tuple[Transition, typing.Any]:
    """Returns B transitions and their versions, in the learner's graph.

    Args:
      data: packed records, uint8 [B, record_bytes]; with stacked frames, W
        frame records per item, uint8 [B, W, bytes of a frame record].
    """
    from slipway.replay.items import unpacking  # needs TensorFlow

    if self.stacked_frames:
      records = data[:, -1, self.frame_bytes :]
      fields = unpacking.unpack_records(self.record, records)
      offsets = fields.pop(FRAME_OFFSET)
      fields["o_tm1"], fields["o_t"] = unpacking.gather_stacks(
        data, offsets, self.observation_shape
      )
    else:
      fields = unpacking.unpack_records(self.record, data)
    versions = fields.pop(VERSION)
    return Transition(**fields), versions

  def kept_frame_records(self, num_envs: int) -> int:
    """Returns how many sent frame records a writer keeps for later items.

    Returns:
      A number of frame records; 0 if observations are stored whole.
    """
    if not self.stacked_frames:
      return 0
    # The oldest frame of an item is n + S - 1 steps older than its newest one.
    # Each of these steps sends a frame record per environment, and twice as
    # many after an episode's start or at its end. A frame record that is no
    # longer kept would be sent again. But each item is sent with the keys of
    # all kept frame records, 10 bytes each, so they are not more than needed.
    # An item's own frame records are sent before the item is created.
    return 2 * self.ring_steps * num_envs + self.frames_per_item
