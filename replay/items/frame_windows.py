"""Frame windows: the frames of T + 1 stacked observations, each stored once.

A window of T steps has T + 1 observations [S, ...], and most of them repeat all
frames but one of the observation before. A packed record has T + S frames, one
black frame, and for each observation the numbers of its S frames among these.

A stack at a reset has one new frame. The others are the new frame repeated
(gymnasium's FrameStackObservation), black (ale_py's vector environment), or the
frames before the reset; so the size of a record is fixed, whatever resets
there are.

Costs of 8 windows of Pong with T = 128 and stacks [4, 84, 84], medians on a
loaded machine, in CPU time except for the bytes:

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

# Fields of a record that stand for its observations.
FRAMES = "frames"  # [N, frame_bytes] uint8, each 8 bytes combined with MASK
NUMBERS = "frame_numbers"  # [T + 1, S] int32: oldest first


class FrameWindows:
  """Packs the observations of windows of B environments.

  Attributes:
    shape: shape of an observation, [S, ...].
    frame_bytes: bytes of a frame in a record, a multiple of 8.
    num_frames: N, frames in a record.
  """

  def __init__(self, shape: tuple[int, ...], steps: int):
    """Computes the sizes.

    Args:
      shape: shape of an observation, [S, ...]: S frames, oldest first.
      steps: T.
    """
    self.shape = shape
    self.frame_bytes = frames_lib.padded_bytes(shape)
    self._steps, self._stack = steps, shape[0]
    self._black = steps + self._stack  # number of the black frame
    self.num_frames = self._black + 1
    self._numbers = np.add.outer(
      np.arange(steps + 1), np.arange(self._stack)
    ).astype(np.int32)
    self._checked = 0  # environments, in rotation

  @property
  def fields(self) -> Mapping[str, packing.Field]:
    """Fields that stand for the observations of a record.

    They are its first fields, and the bytes of the record are a multiple of
    `frame_bytes`: so a batch of records is rows of frames, which the graph need
    not slice (a fifth of its time).
    """
    return {
      FRAMES: (np.dtype(np.uint8), (self.num_frames, self.frame_bytes)),
      NUMBERS: (np.dtype(np.int32), self._numbers.shape),
    }

  def pack(
    self, observations: Sequence[np.ndarray], first: np.ndarray
  ) -> dict[str, np.ndarray]:
    """Returns the fields of B windows.

    Args:
      observations: T + 1 arrays uint8 [B, S, ...].
      first: [B, T + 1] bool, whether an observation begins an episode.

    Raises:
      ValueError: an observation is neither the one before, shifted by one
        frame, nor one of this module's kinds of stacks at a reset. Shifts are
        checked in one environment per step, in turn.
    """
    num_envs, size = len(first), math.prod(self.shape[1:])
    frames = np.zeros((num_envs, self.num_frames, self.frame_bytes), np.uint8)
    older = observations[0][:, :-1]
    frames[:, : self._stack - 1, :size] = older.reshape(
      num_envs, self._stack - 1, size
    )
    newest = np.stack([x[:, -1] for x in observations], axis=1)
    frames[:, self._stack - 1 : self._black, :size] = newest.reshape(
      num_envs, self._steps + 1, size
    )
    frames.view(np.int64)[...] ^= frames_lib.MASK
    self._check_shifts(observations, first)
    numbers = np.repeat(self._numbers[None], num_envs, axis=0)
    # The stack of a window's first observation is in the record as it is.
    for env, t in np.argwhere(first[:, 1:]) + (0, 1):
      self._pad(numbers[env], t, observations[t - 1][env], observations[t][env])
    return {FRAMES: frames, NUMBERS: numbers}

  def _pad(
    self, numbers: np.ndarray, t: int, before: np.ndarray, opening: np.ndarray
  ) -> None:
    """Numbers the frames of the stacks after a reset.

    Args:
      numbers: int32 [T + 1, S], written to.
      t: index of the observation that begins an episode.
      before: [S, ...], the observation before it.
      opening: [S, ...], that observation.
    """
    newest = t + self._stack - 1
    older = opening[:-1]
    if not older.any():
      padding = self._black
    elif np.array_equal(older, np.broadcast_to(opening[-1], older.shape)):
      padding = newest
    elif np.array_equal(older, before[1:]):
      return
    else:
      raise frames_lib.not_stacked(self._stack)
    later = slice(t, t + self._stack - 1)
    numbers[later][self._numbers[later] < newest] = padding

  def _check_shifts(
    self, observations: Sequence[np.ndarray], first: np.ndarray
  ) -> None:
    # One environment per step, in rotation: checking all of them would cost as
    # much as the rest of `pack`, and a wrong environment is wrong at most
    # steps.
    for t in range(1, len(observations)):
      self._checked = env = (self._checked + 1) % len(first)
      older, before = observations[t][env, :-1], observations[t - 1][env, 1:]
      if not first[env, t] and not np.array_equal(older, before):
        raise frames_lib.not_stacked(self._stack)
