"""Forms n-step transitions from a batch of environments, all at once."""

import copy
import typing
from collections.abc import Mapping

import numpy as np

from replay import frames as frames_lib
from replay import grouping, priorities, transitions

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


class Decision(typing.NamedTuple):
  """What a worker decided on a batch of observations, and thought of them."""

  action: np.ndarray  # [B, ...]
  value_of_action: np.ndarray  # [B] float32: q(o_t, a_t)
  value_of_state: np.ndarray  # [B] float32: max_a q(o_t, a), the bootstrap
  state: np.ndarray | None = None  # [B, S] float32, recurrent, before o_t


class Items(typing.NamedTuple):
  """What to write, before the adder's next step: M items."""

  rows: np.ndarray  # [M, row_bytes] uint8, or [M, G, row_bytes] of G each
  priorities: np.ndarray  # [M] float32
  frames: frames_lib.FrameIds | None = None  # [M], where layouts have cells

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
  keeps its bootstrap, a terminated one loses it. Its priority is the TD error
  by the values that the worker computed to act (Horgan et al. 2018,
  "Distributed prioritized experience replay", section 3), so that no network
  is run for it. Its version is that of the variables that chose its first
  action; those of the n - 1 after it may be newer.

  Environments reset themselves in the step after the end (gymnasium's
  NEXT_STEP): that step is no transition and adds nothing.

  Where observations are stacks of frames, it keeps the numbers of their frames
  in place of the observations (`frames.FrameRing`).
  """

  def __init__(
    self,
    layout: transitions.Layout,
    num_envs: int,
    n_step: int,
    discount: float,
  ):
    """Starts with no open transition.

    Args:
      layout: of an item.
      num_envs: B, the environments stepped at once.
      n_step: rewards summed into one transition.
      discount: gamma, per environment step; owned here and nowhere else.
    """
    self._layout = layout
    self._n = n_step
    self._discounts = discount ** np.arange(n_step + 1, dtype=np.float32)
    self._frames = None
    stack = layout.stacked_frames
    if stack:
      self._frames = frames_lib.FrameRing(
        num_envs, layout.observation_shape, steps=n_step + stack
      )
      dtype, shape = np.dtype(np.int64), (stack,)
    else:
      dtype, shape = layout.row.fields["o_tm1"]
    self._grouping = None
    if layout.transitions_per_item > 1:
      self._grouping = grouping.Grouping(
        layout.transitions_per_item, layout.row.row_bytes
      )
    self._observations = np.zeros((n_step, num_envs, *shape), dtype)
    dtype, shape = layout.row.fields["a_tm1"]
    self._actions = np.zeros((n_step, num_envs, *shape), dtype)
    self._values = np.zeros((n_step, num_envs), np.float32)
    self._versions = np.zeros(n_step, np.int64)
    self._returns = np.zeros((n_step, num_envs), np.float32)
    # Rewards summed so far by the transition in each slot; 0: slot is free.
    self._ages = np.zeros((n_step, num_envs), np.int32)
    self._terminated = np.zeros(num_envs, bool)
    self._ended = np.zeros(num_envs, bool)
    self._slot = 0

  def add(
    self,
    observation: np.ndarray,
    decision: Decision,
    reward: np.ndarray,
    terminated: np.ndarray,
    truncated: np.ndarray,
    first: np.ndarray,
    version: int,
  ) -> Items | None:
    """Adds one step of every environment.

    Args:
      observation: [B, ...] what was acted on.
      decision: what was decided on it.
      reward: [B] float32 of the step.
      terminated: [B] bool, the step reached a terminal state.
      truncated: [B] bool, the step was cut off; the state has a value.
      first: [B] bool, the step was an autoreset and the action ignored.
      version: of the variables by which was decided.

    Returns:
      The transitions that end in `observation`, or, where items have several,
      the items that are full with them; None if there are none.
    """
    if self._frames is not None:
      observation = self._frames.add(observation, first)
    items = self._finish(observation, decision.value_of_state)
    slot, real = self._slot, ~first
    self._observations[slot] = observation
    self._actions[slot] = decision.action
    self._values[slot] = decision.value_of_action
    self._versions[slot] = version
    self._returns[slot] = 0.0
    growing = self._ages > 0
    growing[slot] = real
    self._returns += growing * self._discounts[self._ages] * reward
    self._ages += growing
    self._terminated = terminated
    self._ended = terminated | truncated
    self._slot = (slot + 1) % self._n
    return items

  def _finish(
    self, observation: np.ndarray, value_of_state: np.ndarray
  ) -> Items | None:
    """Takes out what is n steps old or belongs to an ended episode."""
    done = (self._ages == self._n) | (self._ended & (self._ages > 0))
    slots, envs = np.nonzero(done)
    if not len(slots):
      return None
    ages = self._ages[slots, envs]
    returns = self._returns[slots, envs]
    discounts = self._discounts[ages] * ~self._terminated[envs]
    targets = returns + discounts * value_of_state[envs]
    td_errors = targets - self._values[slots, envs]
    fields = {
      "o_tm1": self._observations[slots, envs],
      "a_tm1": self._actions[slots, envs],
      "r_t": returns,
      "discount_t": discounts,
      "o_t": observation[envs],
      transitions.VERSION: self._versions[slots],
    }
    frames = None
    if self._frames is not None:
      moved = np.minimum(ages, self._layout.stacked_frames)
      fields[transitions.MOVED] = moved
      ids = self._window(fields["o_tm1"], fields["o_t"], moved)
      frames = frames_lib.FrameIds(ids, self._frames)
    self._ages[slots, envs] = 0
    rows = self._layout.row.pack(fields)
    first_priorities = priorities.from_td_errors(td_errors)
    if self._grouping is None:
      return Items(rows, first_priorities, frames)
    full = self._grouping.add(rows, first_priorities)
    return full and Items(*full)

  def _window(
    self, before: np.ndarray, after: np.ndarray, moved: np.ndarray
  ) -> np.ndarray:
    """The frames [M, W] of two stacks [M, S] that are `moved` [M] apart.

    Reverb takes two equal neighbours for a run of frames in one chunk, and can
    neither read nor refuse it. The padding ends with a frame of `after`, which
    is never the oldest of `before`.
    """
    stack, size = before.shape[1], self._layout.window
    ids = np.empty((len(before), size), np.int64)
    for m in np.unique(moved):
      of = moved == m
      padding = size - m - stack
      ids[of, :padding] = after[of, :padding]
      ids[of, padding : size - m] = before[of]
      ids[of, size - m :] = after[of, stack - m :]
    return ids

  def get_state(self) -> dict[str, typing.Any]:
    """The open transitions, in arrays of the caller's own."""
    state = {name: copy.copy(getattr(self, name)) for name in _STATE}
    if self._frames is not None:
      state["frames"] = self._frames.get_state()
    if self._grouping is not None:
      state["grouping"] = self._grouping.get_state()
    return state

  def set_state(self, state: Mapping[str, typing.Any]) -> None:
    """Goes on with the open transitions of an adder made like this one."""
    for name in _STATE:
      setattr(self, name, copy.copy(state[name]))
    if self._frames is not None:
      self._frames.set_state(state["frames"])
    if self._grouping is not None:
      self._grouping.set_state(state["grouping"])

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
