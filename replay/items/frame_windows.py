"""Frame windows: the frames of T + 1 stacked observations, each stored once.

A sequence of T steps has T + 1 observations [S, ...], and most of them repeat
all frames but one of the observation before. A packed record has T + S frames,
one black frame, and for each observation the indices of its S frames.

A stack at a reset has one new frame. The others are the new frame repeated
(gymnasium's FrameStackObservation), black (ale_py's vector environment), or the
frames before the reset; so the size of a record is fixed, whatever resets
there are.

Costs of 8 sequences of Pong with T = 128 and stacks [4, 84, 84]. Times are CPU
times, medians on a loaded machine:

| | whole observations | frames once |
|---|---|---|
| packed record | 3,644 kB | 946 kB |
| the same in the table, as Snappy compresses it | 187 kB | 53 kB |
| adder, for all 128 steps | 65 ms | 33 ms |
| write and confirm | 22 ms | 6 ms |
| sample by a dataset in the server's process | 22 ms | 8 ms |
| observations in the graph | 8.1 ms | 7.6 ms |
"""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from slipway.replay.items import frames as frames_lib
from slipway.replay.items import packing

# Name of the record's field with its N frames, uint8 [N, frame_bytes]. Each 8
# bytes are combined with `frames.XOR_PATTERN`.
FRAMES = "frames"

# Name of the record's field with the frames of each observation, int32
# [T + 1, S]: indices into FRAMES, the oldest frame first.
NUMBERS = "frame_numbers"


class FrameWindows:
  """Packer of the stacked observations of sequences, each frame stored once.

  Attributes:
    shape: shape of an observation, [S, ...].
    frame_bytes: bytes of a frame in a record, a multiple of 8.
    num_frames: N, frames in a record.
  """

  def __init__(self, shape: tuple[int, ...], steps: int):
    """Computes the sizes of a record's fields.

    Args:
      shape: shape of an observation, [S, ...]: S frames, oldest first.
    """
    self.shape = shape
    self.frame_bytes = frames_lib.padded_frame_bytes(shape)
    self._steps, self._stack = steps, shape[0]  # T, S
    self._black = steps + self._stack  # number of the black frame
    self.num_frames = self._black + 1
    # The field NUMBERS of a sequence without resets.
    self._numbers = np.add.outer(
      np.arange(steps + 1), np.arange(self._stack)
    ).astype(np.int32)
    self._checked = 0  # index of the environment checked last, at first 0

  @property
  def fields(self) -> Mapping[str, packing.Field]:
    """Dtype and shape of the record's fields FRAMES and NUMBERS.

    Place them first in the record, and make the record's size a multiple of
    `frame_bytes`. Then the update's graph can view a batch of records as rows
    of frames. Slices of the records would cost a fifth of its time.
    """
    return {
      FRAMES: (np.dtype(np.uint8), (self.num_frames, self.frame_bytes)),
      NUMBERS: (np.dtype(np.int32), self._numbers.shape),
    }

  def pack(
    self, observations: Sequence[np.ndarray], first: np.ndarray
  ) -> dict[str, np.ndarray]:
    """Returns the fields FRAMES and NUMBERS of B sequences, [B, ...] each.

    Args:
      observations: T + 1 arrays uint8 [B, S, ...].
      first: [B, T + 1] bool, whether an observation begins an episode.

    Raises:
      ValueError: an observation is neither its predecessor shifted by one
        frame, nor a stack at a reset as the module describes. Each step is
        checked in only one environment, in rotation.
    """
    num_envs, size = len(first), math.prod(self.shape[1:])
    frames = np.zeros((num_envs, self.num_frames, self.frame_bytes), np.uint8)
    older_frames = observations[0][:, :-1]
    frames[:, : self._stack - 1, :size] = older_frames.reshape(
      num_envs, self._stack - 1, size
    )
    newest = np.stack([x[:, -1] for x in observations], axis=1)
    frames[:, self._stack - 1 : self._black, :size] = newest.reshape(
      num_envs, self._steps + 1, size
    )
    frames.view(np.int64)[...] ^= frames_lib.XOR_PATTERN
    self._check_shifts(observations, first)
    numbers = np.repeat(self._numbers[None], num_envs, axis=0)
    # The stack of a window's first observation is in the record as it is.
    for env, t in np.argwhere(first[:, 1:]) + (0, 1):
      self._renumber_after_reset(
        numbers[env], t, observations[t - 1][env], observations[t][env]
      )
    return {FRAMES: frames, NUMBERS: numbers}

  def _renumber_after_reset(
    self, numbers: np.ndarray, t: int, previous: np.ndarray, current: np.ndarray
  ) -> None:
    """Corrects the frame indices of stacks that follow a reset, in place."""
    newest = t + self._stack - 1
    older_frames = current[:-1]
    if not older_frames.any():
      padding = self._black
    elif np.array_equal(
      older_frames, np.broadcast_to(current[-1], older_frames.shape)
    ):
      padding = newest
    elif np.array_equal(older_frames, previous[1:]):
      return
    else:
      raise frames_lib.not_stacked_error(self._stack)
    later = slice(t, t + self._stack - 1)
    numbers[later][self._numbers[later] < newest] = padding

  def _check_shifts(
    self, observations: Sequence[np.ndarray], first: np.ndarray
  ) -> None:
    # Each step is checked in one environment, the next one after that of the
    # step before. To check all of them would cost as much as the rest of
    # `pack`. An environment whose observations are no stacks is found soon, as
    # most of its steps fail.
    for t in range(1, len(observations)):
      self._checked = env = (self._checked + 1) % len(first)
      older_frames = observations[t][env, :-1]
      expected_frames = observations[t - 1][env, 1:]
      if not first[env, t] and not np.array_equal(
        older_frames, expected_frames
      ):
        raise frames_lib.not_stacked_error(self._stack)
