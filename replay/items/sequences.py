"""Sequences of T steps, for recurrent and on-policy learning.

A sequence has T steps and the T + 1 observations around them. It may contain
the end of an episode. The first observation of the next episode is marked in
`first`, and recurrent states are reset to zero there.

Stacked frames are stored once per sequence (`frame_windows`).
"""

import typing
from collections.abc import Mapping

import numpy as np
from acme import specs

from slipway.replay.items import frame_windows, frames, packing, transitions


class Sequence(typing.NamedTuple):
  """T steps of one environment; in a batch, each field has a leading [B].

  Attributes:
    observation: observations before each step and after the last, [T + 1, ...].
    action: actions, [T, ...], of the environment spec's dtype and shape.
    reward: rewards, float32 [T].
    discount: gamma, or 0 where the step terminated the episode, float32 [T].
    ended: whether the step was the last one of its episode, bool [T].
    first: whether the observation begins an episode, bool [T + 1].
    action_before: action of the step before the sequence, [...].
    reward_before: reward of the step before the sequence, float32 [].
    extras: the actor's extras by name: [T, ...] if stored for each step,
      [T + 1, ...] for each observation, [...] for the first step only.
  """

  observation: typing.Any
  action: typing.Any
  reward: typing.Any
  discount: typing.Any
  ended: typing.Any
  first: typing.Any
  action_before: typing.Any
  reward_before: typing.Any
  extras: typing.Any


class SequenceSchema:
  """Item schema of a `Sequence`, which is stored as one packed record.

  Attributes:
    record: packing of the record.
    item_shape: shape of an item, [record_bytes] of dtype uint8.
    steps: T, steps of a sequence.
    windows: packing of observations that are stacks of frames; None:
      observations are stored whole.
    step_extras: dtype and shape, by name, of the actor's extras that are stored
      for each step; the adder itself computes `returns.FIELD`.
    observation_extras: dtype and shape, by name, of the actor's extras that
      are stored for each observation, that after the last step included.
    start_extras: dtype and shape, by name, of the actor's extras that are
      stored for the first step only.
    transitions_per_item: 1, as an item is one sequence.
  """

  transitions_per_item = 1

  def __init__(
    self,
    spec: specs.EnvironmentSpec,
    steps: int,
    step_extras: Mapping[str, packing.Field] | None = None,
    start_extras: Mapping[str, packing.Field] | None = None,
    stacked_frames: int = 0,
    observation_extras: Mapping[str, packing.Field] | None = None,
  ):
    """Makes the schema for an environment's specs.

    Args (others: see the attributes):
      stacked_frames: S, the frames of an observation [S, ...], which are stored
        once each; 0: observations are stored whole.

    Raises:
      ValueError: observations are not uint8 [stacked_frames, ...].
    """
    observations, actions = spec.observations, spec.actions
    flag, number = np.dtype(bool), np.dtype(np.float32)
    self.steps = steps
    self.step_extras = dict(step_extras or {})
    self.start_extras = dict(start_extras or {})
    self.observation_extras = dict(observation_extras or {})
    self.windows, multiple_of = None, 1
    observation: Mapping[str, packing.Field] = {
      "observation": (observations.dtype, (steps + 1, *observations.shape))
    }
    if stacked_frames:
      frames.check_spec(spec, stacked_frames)
      self.windows = frame_windows.FrameWindows(observations.shape, steps)
      observation = self.windows.fields
      multiple_of = self.windows.frame_bytes
    self.record = packing.Packing(
      {
        **observation,
        "action": (actions.dtype, (steps, *actions.shape)),
        "reward": (number, (steps,)),
        "discount": (number, (steps,)),
        "ended": (flag, (steps,)),
        "first": (flag, (steps + 1,)),
        "action_before": (actions.dtype, actions.shape),
        "reward_before": (number, ()),
        **{
          name: (dtype, (steps, *shape))
          for name, (dtype, shape) in self.step_extras.items()
        },
        **{
          name: (dtype, (steps + 1, *shape))
          for name, (dtype, shape) in self.observation_extras.items()
        },
        **self.start_extras,
        transitions.VERSION: (np.dtype(np.int64), (steps,)),
      },
      multiple_of,
    )
    self.item_shape = (self.record.record_bytes,)

  def kept_frame_records(self, num_envs: int) -> int:
    """Returns 0, as sequences have no frame records."""
    del num_envs
    return 0

  def unpack(self, data: typing.Any) -> tuple[Sequence, typing.Any]:
    """Returns B sequences and their versions, in the learner's graph.

    Args:
      data: packed records, uint8 [B, record_bytes].
    """
    from slipway.replay.items import unpacking  # needs TensorFlow

    fields = unpacking.unpack_records(self.record, data)
    if self.windows is not None:
      del fields[frame_windows.FRAMES]
      numbers = fields.pop(frame_windows.NUMBERS)
      fields["observation"] = unpacking.gather_windows(
        data, numbers, self.windows.shape
      )
    versions = fields.pop(transitions.VERSION)
    names = (*self.step_extras, *self.observation_extras, *self.start_extras)
    extras = {name: fields.pop(name) for name in names}
    return Sequence(**fields, extras=extras), versions
