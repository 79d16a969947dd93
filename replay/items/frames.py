"""FrameRing: the frames of stacked observations, each held once, by number.

An observation that is a stack of frames [S, ...] repeats all but one frame of
the one before. Where each frame has a number, a stack is S numbers, and what
is written, sent and kept is a frame once and not in each stack that shows it
(Mnih et al. 2015, methods, keep their million transitions like that).
"""

import math
import typing
from collections.abc import Mapping

import numpy as np

# Frames are held, sent and kept with each 8 bytes combined with this by
# exclusive or. Reverb compresses by Snappy, which takes twice as long to undo a
# run of equal bytes as one that repeats every 8 (docs/libraries.md).
MASK = np.int64(0x0102040810204080)

_STATE = ("_ring", "_ids", "_last", "_opening", "_next")


class FrameRing:
  """Numbers the frames of B environments and holds the newest of them."""

  def __init__(self, num_envs: int, shape: tuple[int, ...], steps: int):
    """Starts empty: the next observations open episodes.

    Args:
      num_envs: B.
      shape: of an observation, [S, ...]: S frames, oldest first.
      steps: for which a frame is held, at least.
    """
    self._stack = shape[0]
    self.frame_bytes = held_bytes(shape)
    # An observation that opens an episode brings S frames.
    size = (steps + 1) * num_envs * self._stack
    self._ring = np.zeros((size, self.frame_bytes), np.uint8)
    self._ids = np.zeros((num_envs, self._stack), np.int64)
    self._last = np.empty((num_envs, *shape), np.uint8)
    self._opening = np.ones(num_envs, bool)
    self._next = 0  # number of the next frame

  def add(self, observation: np.ndarray, first: np.ndarray) -> np.ndarray:
    """Takes over the frames that are new.

    Args:
      observation: uint8 [B, S, ...]; not to be written to afterwards.
      first: [B] bool, the step from it is an autoreset: what follows it opens
        an episode, all of whose frames are new.

    Returns:
      The numbers of its frames, int64 [B, S].

    Raises:
      ValueError: an observation is not the one before, moved on by one frame.
    """
    self._check(observation)
    ids, opening = np.empty_like(self._ids), self._opening
    ids[:, :-1] = self._ids[:, 1:]
    ids[~opening, -1] = self._hold(observation[~opening, -1])
    if opening.any():
      stacks = observation[opening]
      frames = stacks.reshape(-1, *stacks.shape[2:])
      ids[opening] = self._hold(frames).reshape(-1, self._stack)
    self._ids, self._last, self._opening = ids, observation, first
    return ids

  def take(self, ids: np.ndarray) -> np.ndarray:
    """Copies frames, uint8 [..., held_bytes] with MASK, by number [...]."""
    return self._ring[ids % len(self._ring)]

  def get_state(self) -> dict[str, typing.Any]:
    """All frames held, in arrays of the caller's own."""
    return {name: np.copy(getattr(self, name)) for name in _STATE}

  def set_state(self, state: Mapping[str, typing.Any]) -> None:
    """Goes on with the frames of a ring made like this one."""
    for name in _STATE:
      setattr(self, name, np.copy(state[name]))
    self._next = int(self._next)

  def _hold(self, frames: np.ndarray) -> np.ndarray:
    ids = np.arange(self._next, self._next + len(frames))
    slots, size = ids % len(self._ring), math.prod(frames.shape[1:])
    self._ring[slots, :size] = frames.reshape(-1, size)
    self._ring.view(np.int64)[slots] ^= MASK
    self._next += len(frames)
    return ids

  def _check(self, observation: np.ndarray) -> None:
    # One environment a step, in turns: all of them would cost as much as the
    # rest of `add`, and who breaks the rule breaks it often.
    env = self._next % len(observation)
    if self._opening[env]:
      return
    if not np.array_equal(observation[env, :-1], self._last[env, 1:]):
      raise ValueError(
        f"config.adder.stacked_frames={self._stack}, but an observation of the "
        "environment is not the one before moved on by one frame, so frames "
        "can't be stored once: set --config.adder.stacked_frames=0"
      )


def held_bytes(shape: tuple[int, ...]) -> int:
  """Bytes of one frame of stacks of this shape [S, ...], in whole 8s."""
  return -(-math.prod(shape[1:]) // 8) * 8


class FrameIds(typing.NamedTuple):
  """The frames of some items, by number."""

  ids: np.ndarray  # [M, W] int64: a cell each, the last one the newest
  ring: FrameRing  # holds them until the adder's next step
