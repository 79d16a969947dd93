"""Frame ring: the newest frames of stacked observations, each stored once.

An observation that is a stack of frames [S, ...] repeats all frames but one of
the observation before. The ring numbers the frames, so that a stack is S
numbers. Each frame is written, sent and stored once, instead of once per stack
that contains it. Mnih et al. 2015 (methods) store their million transitions in
the same way.
"""

import math
import typing
from collections.abc import Mapping

import numpy as np
from acme import specs

# Pattern that is combined with each 8 bytes of a stored frame by exclusive or,
# for faster sampling. Snappy, Reverb's compression, decompresses runs of equal
# bytes half as fast as runs that repeat every 8 bytes:
# benchmarks/results/libraries.md.
XOR_PATTERN = np.int64(0x0102040810204080)

# Names of the attributes of `FrameRing` that `get_state` saves.
_STATE_ATTRIBUTES = ("_ring", "_ids", "_last", "_opening", "_next")


class FrameRing:
  """Ring buffer of the newest frames of B environments, each with a number.

  Numbers count up from 0 over the frames of all environments.

  Attributes:
    frame_bytes: bytes of one stored frame, a multiple of 8.
  """

  def __init__(self, num_envs: int, shape: tuple[int, ...], steps: int):
    """Makes an empty ring, whose next observations begin episodes.

    Args:
      shape: shape of an observation, [S, ...]: S frames, oldest first.
      steps: minimum number of steps for which a frame stays stored.
    """
    self._stack = shape[0]  # S
    self.frame_bytes = padded_frame_bytes(shape)
    size = num_envs * ring_frames(self._stack, steps)
    # The frame with number i is in row i % size.
    self._ring = np.zeros((size, self.frame_bytes), np.uint8)
    # The last observation of each environment, and the numbers of its frames.
    self._last = np.empty((num_envs, *shape), np.uint8)
    self._ids = np.zeros((num_envs, self._stack), np.int64)
    # Whether the next observation of each environment begins an episode.
    self._opening = np.ones(num_envs, bool)
    self._next = 0  # number of the next frame
    self._checked = 0  # number of checks; the environments rotate

  def add(self, observation: np.ndarray, first: np.ndarray) -> np.ndarray:
    """Stores the new frames of a step's observations, and numbers them.

    Args:
      observation: uint8 [B, S, ...]; the caller must not modify the array
        afterwards.
      first: [B] bool, whether the step from this observation is an autoreset.
        The next observation then begins an episode, and all its frames are new.

    Returns:
      The numbers of each observation's S frames, int64 [B, S].

    Raises:
      ValueError: an observation is not its predecessor shifted by one frame;
        one environment per call is checked.
    """
    self._check_shift(observation)
    ids, opening = np.empty_like(self._ids), self._opening
    ids[:, :-1] = self._ids[:, 1:]
    ids[~opening, -1] = self._store(observation[~opening, -1])
    if opening.any():
      stacks = observation[opening]
      frames = stacks.reshape(-1, *stacks.shape[2:])
      ids[opening] = self._store(frames).reshape(-1, self._stack)
    self._ids, self._last, self._opening = ids, observation, first
    return ids

  def take(self, ids: np.ndarray) -> np.ndarray:
    """Returns copies of stored frames by their numbers.

    Args:
      ids: frame numbers, int64 of any shape [...].

    Returns:
      Frames, uint8 [..., frame_bytes], each 8 bytes combined with
        `XOR_PATTERN`.
    """
    return self._ring[ids % len(self._ring)]

  def get_state(self) -> dict[str, typing.Any]:
    """Returns a copy of all stored frames and of their numbers."""
    return {name: np.copy(getattr(self, name)) for name in _STATE_ATTRIBUTES}

  def set_state(self, state: Mapping[str, typing.Any]) -> None:
    """Restores a result of `get_state` of a ring with equal arguments."""
    for name in _STATE_ATTRIBUTES:
      setattr(self, name, np.copy(state[name]))
    self._next = int(self._next)

  def _store(self, frames: np.ndarray) -> np.ndarray:
    """Stores M frames, uint8 [M, ...], and returns their numbers [M]."""
    ids = np.arange(self._next, self._next + len(frames))
    slots, size = ids % len(self._ring), math.prod(frames.shape[1:])
    self._ring[slots, :size] = frames.reshape(-1, size)
    self._ring.view(np.int64)[slots] ^= XOR_PATTERN
    self._next += len(frames)
    return ids

  def _check_shift(self, observation: np.ndarray) -> None:
    """Raises ValueError if an observation is not its shifted predecessor."""
    # Each call checks the next environment. To check all of them would cost as
    # much as the rest of `add`. An environment whose observations are no stacks
    # is found soon, as most of its steps fail.
    env = self._checked % len(observation)
    self._checked += 1
    if self._opening[env]:
      return
    if not np.array_equal(observation[env, :-1], self._last[env, 1:]):
      raise not_stacked_error(self._stack)


def not_stacked_error(stacked_frames: int) -> ValueError:
  """Returns an error for observations that are no stacks of frames."""
  return ValueError(
    f"config.adder.stacked_frames={stacked_frames}, but an observation of the "
    "environment is not the one before shifted by one frame, so frames can't "
    "be stored once: set --config.adder.stacked_frames=0"
  )


def check_spec(spec: specs.EnvironmentSpec, stacked_frames: int) -> None:
  """Checks that a spec's observations are stacks of uint8 frames.

  Raises:
    ValueError: the observations are not uint8 [stacked_frames, ...].
  """
  observations = spec.observations
  shape = observations.shape
  if (
    observations.dtype != np.uint8
    or len(shape) < 2
    or shape[0] != stacked_frames
  ):
    raise ValueError(
      f"config.adder.stacked_frames={stacked_frames} takes uint8 observations "
      f"[{stacked_frames}, ...], frames first, but the environment has "
      f"{observations.dtype} {list(shape)}: use "
      "--config.adder.stacked_frames=0"
    )


def ring_frames(stack: int, steps: int) -> int:
  """Returns how many frames a `FrameRing` stores per environment.

  Args:
    steps: minimum number of steps for which a frame stays stored.
  """
  # An observation that begins an episode has S new frames.
  return (steps + 1) * stack


def padded_frame_bytes(shape: tuple[int, ...]) -> int:
  """Returns the bytes of one frame, rounded up to a multiple of 8.

  Args:
    shape: shape of a stack of uint8 frames, [S, ...].
  """
  return -(-math.prod(shape[1:]) // 8) * 8


class FrameIds(typing.NamedTuple):
  """Frame numbers of M items, and the ring that stores the frames.

  Attributes:
    ids: number of each item's W frames, int64 [M, W], the newest last.
    ring: ring with the frames, which it keeps until the next call of the adder.
  """

  ids: np.ndarray
  ring: FrameRing
