"""Forms n-step transitions from a batch of environments, all at once."""

import copy
import typing
from collections.abc import Callable, Mapping

import numpy as np

from slipway.replay import frames as frames_lib
from slipway.replay import grouping, returns, transitions

# What changes from step to step.
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


# Extras of an actor from which first priorities are computed.
VALUE_OF_ACTION = "value_of_action"  # [B] float32: q(o_t, a_t)
VALUE_OF_STATE = "value_of_state"  # [B] float32: max_a q(o_t, a), a bootstrap


class ActorOutput(typing.NamedTuple):
  """An actor's actions, and what the adder stores or computes with of them."""

  action: np.ndarray  # [B, ...]
  extras: Mapping[str, np.ndarray]  # [B, ...] each, by name


class Items(typing.NamedTuple):
  """M items, to be written before the adder's next step."""

  rows: np.ndarray  # [M, row_bytes] uint8, or [M, G, row_bytes] of G each
  priorities: np.ndarray  # [M] float32
  frames: frames_lib.FrameIds | None = None  # [M], where schemas have cells

  def data(self) -> np.ndarray:
    """Each item as a table has it, uint8 [M, item bytes]."""
    if self.frames is None:
      return self.rows.reshape(len(self.rows), -1)
    ids, ring = self.frames
    cells = np.zeros(
      (*ids.shape, ring.frame_bytes + self.rows.shape[1]), np.uint8
    )
    cells[:, :, : ring.frame_bytes] = ring.take(ids)
    cells[:, -1, ring.frame_bytes :] = self.rows
    return cells.reshape(len(cells), -1)


class NStepAdder:
  """Turns steps of B environments into n-step transitions with priorities.

  A transition that starts at time t holds

    r_t = sum_{i<k} gamma^i R_{t+i+1},  discount_t = gamma^k (1 - terminated)

  with k = n, or fewer steps where the episode ends before: an episode of
  length T gives T transitions, the last ones shorter. A truncated episode
  keeps its bootstrap, a terminated one loses it. Its first priority follows
  from the TD error by the values that the worker computed to act (Horgan et al.
  2018, "Distributed prioritized experience replay", section 3), so that no
  network is run for it. Its version is that of the variables that chose its
  first action; those of the n - 1 after it may be newer.

  Environments reset themselves in the step after the end (gymnasium's
  NEXT_STEP): that step is no transition and adds nothing.

  Where observations are stacks of frames, it keeps the numbers of their frames
  in place of the observations (`frames.FrameRing`).
  """

  def __init__(
    self,
    schema: transitions.TransitionSchema,
    num_envs: int,
    n_step: int,
    discount: float,
    priority: Callable[[np.ndarray], np.ndarray] | None = None,
  ):
    """Starts with no open transition.

    Args:
      schema: of an item.
      num_envs: B, the environments stepped at once.
      n_step: rewards summed into one transition.
      discount: gamma, per environment step; owned here and nowhere else.
      priority: priorities [M] of TD errors [M], for which actors give the
        extras VALUE_OF_ACTION and VALUE_OF_STATE; None: all are 1.
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
      dtype, shape = schema.row.fields["o_tm1"]
    self._grouping = None
    if schema.transitions_per_item > 1:
      self._grouping = grouping.Grouping(
        schema.transitions_per_item, schema.row.row_bytes
      )
    self._observations = np.zeros((n_step, num_envs, *shape), dtype)
    dtype, shape = schema.row.fields["a_tm1"]
    self._actions = np.zeros((n_step, num_envs, *shape), dtype)
    self._values = np.zeros((n_step, num_envs), np.float32)
    self._versions = np.zeros(n_step, np.int64)
    self._returns = np.zeros((n_step, num_envs), np.float32)
    self._running = None
    if returns.FIELD in schema.row.fields:
      self._running = returns.RunningReturns(num_envs, discount)
      # After the first step of the transition in each slot.
      self._running_returns = np.zeros((n_step, num_envs), np.float32)
    # Rewards summed so far by the transition in each slot; 0: slot is free.
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
      The transitions that end in `observation`, or, where items have several,
      the items that are full with them; None if there are none. Those that end
      in `next_observation` come with the next step, when its value is known.
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
    """Takes out what is n steps old or belongs to an ended episode."""
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
      moved = np.minimum(ages, self._schema.stacked_frames)
      fields[transitions.MOVED] = moved
      ids = self._window(fields["o_tm1"], fields["o_t"], moved)
      frames = frames_lib.FrameIds(ids, self._frames)
    self._ages[slots, envs] = 0
    rows = self._schema.row.pack(fields)
    if self._grouping is None:
      return Items(rows, found, frames)
    full = self._grouping.add(rows, found)
    return full and Items(*full)

  def _window(
    self, before: np.ndarray, after: np.ndarray, moved: np.ndarray
  ) -> np.ndarray:
    """The frames [M, W] of two stacks [M, S] that are `moved` [M] apart.

    Reverb takes two equal neighbours for a run of frames in one chunk, and can
    neither read nor refuse it. The padding ends with a frame of `after`, which
    is never the oldest of `before`.
    """
    stack, size = before.shape[1], self._schema.window
    ids = np.empty((len(before), size), np.int64)
    for m in np.unique(moved):
      of = moved == m
      padding = size - m - stack
      ids[of, :padding] = after[of, :padding]
      ids[of, padding : size - m] = before[of]
      ids[of, size - m :] = after[of, stack - m :]
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
    """Continues with the unfinished transitions of an adder made alike."""
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
    """Asserts what must hold between two calls; tests call it each time."""
    assert self._ages.min() >= 0
    assert self._ages.max() <= self._n
    for env in range(self._ages.shape[1]):
      ages = self._ages[:, env]
      open_ages = ages[ages > 0]
      assert len(set(open_ages)) == len(open_ages), "two starts at one time"
      newest = (self._slot - 1) % self._n
      if len(open_ages):
        assert ages[newest] == 1, "the newest step has one reward"
