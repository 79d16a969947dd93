"""N-step adder: forms transitions from the steps of several environments."""

import copy
import typing
from collections.abc import Callable, Mapping

import numpy as np

from slipway.replay.items import frames as frames_lib
from slipway.replay.items import grouping, returns, transitions

# Attributes that change from step to step.
_STATE = (
  "_observations",
  "_actions",
  "_values",
  "_versions",
  "_returns",
  "_ages",
  "_terminated",
  "_ended",
  "_slot",
)


# Extras of an actor, from which the adder computes first priorities.
VALUE_OF_ACTION = "value_of_action"  # [B] float32: q(o_t, a_t)
VALUE_OF_STATE = (
  "value_of_state"  # [B] float32: max_a q(o_t, a), for bootstraps
)


class ActorOutput(typing.NamedTuple):
  """Actions of an actor, and its further outputs for the adder."""

  action: np.ndarray  # [B, ...]
  extras: Mapping[str, np.ndarray]  # [B, ...] each, by name


class Items(typing.NamedTuple):
  """M items, to be written before the next call of the adder."""

  records: np.ndarray  # uint8 [M, record_bytes], or [M, G, record_bytes]
  priorities: np.ndarray  # [M] float32
  frames: frames_lib.FrameIds | None = None  # [M], for items of frame records

  def data(self) -> np.ndarray:
    """Returns the bytes of each item in a table, uint8 [M, item bytes]."""
    if self.frames is None:
      return self.records.reshape(len(self.records), -1)
    ids, ring = self.frames
    frame_records = np.zeros(
      (*ids.shape, ring.frame_bytes + self.records.shape[1]), np.uint8
    )
    frame_records[:, :, : ring.frame_bytes] = ring.take(ids)
    frame_records[:, -1, ring.frame_bytes :] = self.records
    return frame_records.reshape(len(frame_records), -1)


class NStepAdder:
  """Forms n-step transitions with priorities from steps of B environments.

  A transition that starts at time t has

    r_t = sum_{i<k} gamma^i R_{t+i+1},  discount_t = gamma^k (1 - terminated)

  with k = n, or fewer steps where the episode ends before: an episode of
  length T gives T transitions, the last ones shorter. A truncated episode
  keeps its bootstrap, a terminated one loses it. The first priority is computed
  from the TD error by the values that the actor has computed to act (Horgan et
  al. 2018, "Distributed prioritized experience replay", section 3), so no
  network is run for it. The version is that of the variables that chose the
  first action; the n - 1 actions after it may come from newer ones.

  Environments reset in the step after an episode's end (gymnasium's NEXT_STEP);
  that step is not part of a transition.

  If observations are stacks of frames, the adder keeps the numbers of their
  frames instead of the observations (`frames.FrameRing`).
  """

  def __init__(
    self,
    schema: transitions.TransitionSchema,
    num_envs: int,
    n_step: int,
    discount: float,
    priority: Callable[[np.ndarray], np.ndarray] | None = None,
  ):
    """Starts without unfinished transitions.

    Args:
      schema: schema of an item.
      num_envs: B, the environments stepped at once.
      n_step: n, the rewards summed into one transition.
      discount: gamma, per environment step; learners use `discount_t` only.
      priority: returns priorities [M] for TD errors [M]; the actor then has to
        return the extras VALUE_OF_ACTION and VALUE_OF_STATE. None: all
        priorities are 1.
    """
    self._schema, self._priority = schema, priority
    self._n = n_step
    self._discounts = discount ** np.arange(n_step + 1, dtype=np.float32)
    self._frames = None
    stack = schema.stacked_frames
    if stack:
      self._frames = frames_lib.FrameRing(
        num_envs, schema.observation_shape, steps=n_step + stack
      )
      dtype, shape = np.dtype(np.int64), (stack,)
    else:
      dtype, shape = schema.record.fields["o_tm1"]
    self._grouping = None
    if schema.transitions_per_item > 1:
      self._grouping = grouping.Grouping(
        schema.transitions_per_item, schema.record.record_bytes
      )
    self._observations = np.zeros((n_step, num_envs, *shape), dtype)
    dtype, shape = schema.record.fields["a_tm1"]
    self._actions = np.zeros((n_step, num_envs, *shape), dtype)
    self._values = np.zeros((n_step, num_envs), np.float32)
    self._versions = np.zeros(n_step, np.int64)
    self._returns = np.zeros((n_step, num_envs), np.float32)
    self._running = None
    if returns.FIELD in schema.record.fields:
      self._running = returns.RunningReturns(num_envs, discount)
      # After the first step of the transition in each slot.
      self._running_returns = np.zeros((n_step, num_envs), np.float32)
    # Rewards that the transition in each slot has summed; 0: the slot is free.
    self._ages = np.zeros((n_step, num_envs), np.int32)
    self._terminated = np.zeros(num_envs, bool)
    self._ended = np.zeros(num_envs, bool)
    self._slot = 0

  def add(
    self,
    observation: np.ndarray,
    output: ActorOutput,
    reward: np.ndarray,
    terminated: np.ndarray,
    truncated: np.ndarray,
    first: np.ndarray,
    next_observation: np.ndarray,
    version: int,
  ) -> Items | None:
    """Adds one step of every environment; see `slipway.agents.core.Adder`.

    Returns:
      The transitions that end in `observation`; with several transitions per
      item, the items that these complete; None if there are none. Transitions
      that end in `next_observation` are returned by the next call, when the
      value of that observation is known.
    """
    del next_observation
    if self._frames is not None:
      observation = self._frames.add(observation, first)
    items = self._finish(observation, output.extras)
    slot, real = self._slot, ~first
    self._observations[slot] = observation
    self._actions[slot] = output.action
    if self._priority is not None:
      self._values[slot] = output.extras[VALUE_OF_ACTION]
    self._versions[slot] = version
    self._returns[slot] = 0.0
    if self._running is not None:
      self._running_returns[slot] = self._running.add(reward, first)
    growing = self._ages > 0
    growing[slot] = real
    self._returns += growing * self._discounts[self._ages] * reward
    self._ages += growing
    self._terminated = terminated
    self._ended = terminated | truncated
    self._slot = (slot + 1) % self._n
    return items

  def _finish(
    self, observation: np.ndarray, extras: Mapping[str, np.ndarray]
  ) -> Items | None:
    """Returns transitions of n steps, and those of ended episodes."""
    done = (self._ages == self._n) | (self._ended & (self._ages > 0))
    slots, envs = np.nonzero(done)
    if not len(slots):
      return None
    ages = self._ages[slots, envs]
    rewards = self._returns[slots, envs]
    discounts = self._discounts[ages] * ~self._terminated[envs]
    found = np.ones(len(slots), np.float32)
    if self._priority is not None:
      targets = rewards + discounts * extras[VALUE_OF_STATE][envs]
      found = self._priority(targets - self._values[slots, envs])
    fields = {
      "o_tm1": self._observations[slots, envs],
      "a_tm1": self._actions[slots, envs],
      "r_t": rewards,
      "discount_t": discounts,
      "o_t": observation[envs],
      transitions.VERSION: self._versions[slots],
    }
    if self._running is not None:
      fields[returns.FIELD] = self._running_returns[slots, envs]
    frames = None
    if self._frames is not None:
      offsets = np.minimum(ages, self._schema.stacked_frames)
      fields[transitions.FRAME_OFFSET] = offsets
      ids = self._frame_ids(fields["o_tm1"], fields["o_t"], offsets)
      frames = frames_lib.FrameIds(ids, self._frames)
    self._ages[slots, envs] = 0
    records = self._schema.record.pack(fields)
    if self._grouping is None:
      return Items(records, found, frames)
    full = self._grouping.add(records, found)
    return full and Items(*full)

  def _frame_ids(
    self, before: np.ndarray, after: np.ndarray, offsets: np.ndarray
  ) -> np.ndarray:
    """Returns the numbers of the frames of M items: padding, and two stacks.

    Two equal neighbours in an item are not allowed: Reverb would store them as
    a run of frames in one chunk, which it can neither read nor reject. So the
    padding ends with a frame of `after`, which is never the oldest of `before`.

    Args:
      before: int64 [M, S], frames of o_tm1.
      after: int64 [M, S], frames of o_t.
      offsets: [M], frames from o_tm1 to o_t.

    Returns:
      int64 [M, W].
    """
    stack, size = before.shape[1], self._schema.frames_per_item
    ids = np.empty((len(before), size), np.int64)
    for m in np.unique(offsets):
      same = offsets == m
      padding = size - m - stack
      ids[same, :padding] = after[same, :padding]
      ids[same, padding : size - m] = before[same]
      ids[same, size - m :] = after[same, stack - m :]
    return ids

  def get_state(self) -> dict[str, typing.Any]:
    """Returns a copy of the unfinished transitions."""
    state = {name: copy.copy(getattr(self, name)) for name in _STATE}
    if self._frames is not None:
      state["frames"] = self._frames.get_state()
    if self._grouping is not None:
      state["grouping"] = self._grouping.get_state()
    if self._running is not None:
      state["running"] = self._running.values.copy()
      state["running_returns"] = self._running_returns.copy()
    return state

  def set_state(self, state: Mapping[str, typing.Any]) -> None:
    """Restores unfinished transitions of an adder with equal arguments."""
    for name in _STATE:
      setattr(self, name, copy.copy(state[name]))
    if self._frames is not None:
      self._frames.set_state(state["frames"])
    if self._grouping is not None:
      self._grouping.set_state(state["grouping"])
    if self._running is not None:
      self._running.values = state["running"].copy()
      self._running_returns = state["running_returns"].copy()

  def check_valid(self) -> None:
    """Asserts the invariants between two calls; for tests."""
    assert self._ages.min() >= 0
    assert self._ages.max() <= self._n
    for env in range(self._ages.shape[1]):
      ages = self._ages[:, env]
      unfinished = ages[ages > 0]
      assert len(set(unfinished)) == len(unfinished), (
        "two transitions start at one step"
      )
      newest = (self._slot - 1) % self._n
      if len(unfinished):
        assert ages[newest] == 1, "the newest transition has one reward"
