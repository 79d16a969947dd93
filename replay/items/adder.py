"""N-step adder: forms n-step transitions from steps of several environments."""

import copy
import typing
from collections.abc import Mapping

import numpy as np

from slipway.replay.items import frames as frames_lib
from slipway.replay.items import grouping, returns, transitions

# Names of the attributes of `NStepAdder` that `get_state` saves.
_STATE_ATTRIBUTES = (
  "_observations",
  "_actions",
  "_extras",
  "_versions",
  "_returns",
  "_ages",
  "_terminated",
  "_ended",
  "_slot",
)


class Priority(typing.Protocol):
  """Function that computes first priorities of items, for an adder.

  Workers compute them from what their actors know, so they need no network of
  the learner (Horgan et al. 2018, "Distributed prioritized experience replay",
  section 3).
  """

  @property
  def step_extras(self) -> tuple[str, ...]:
    """Names of the actor's extras of steps that it needs.

    Those of a transition's first step are [M], those of all T steps of a
    sequence [B, T].
    """
    ...

  @property
  def observation_extras(self) -> tuple[str, ...]:
    """Names of the extras of observations that it needs.

    Those of a transition's o_t are [M], those of all T + 1 observations of a
    sequence [B, T + 1].
    """
    ...

  def __call__(self, fields: Mapping[str, np.ndarray]) -> np.ndarray:
    """Returns the priorities of M items, float32 [M], finite and at least 0.

    Args:
      fields: the items' fields by name, [M, ...], and the extras.
    """
    ...


class ActorOutput(typing.NamedTuple):
  """Actions and extras that an actor returns for B observations."""

  action: np.ndarray  # [B, ...]
  extras: Mapping[str, np.ndarray]  # arrays [B, ...] by name, for the adder


class Items(typing.NamedTuple):
  """M packed items that an adder returns, to be written to a table.

  Write the items before the next call of the adder, which may overwrite their
  frames.

  Attributes:
    records: packed records, uint8 [M, record_bytes]; with G transitions per
      item, [M, G, record_bytes].
    priorities: first priorities, float32 [M].
    frames: frame numbers of the M items; None: observations are stored whole.
  """

  records: np.ndarray
  priorities: np.ndarray
  frames: frames_lib.FrameIds | None = None

  def data(self) -> np.ndarray:
    """Returns the complete items with their frames, uint8 [M, item bytes]."""
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
  """Adder that forms n-step transitions from the steps of B environments.

  A transition that starts at time t has

    r_t = sum_{i<k} gamma^i R_{t+i+1},  discount_t = gamma^k (1 - terminated)

  with k = n steps, or fewer if the episode ends earlier. An episode of length T
  gives T transitions, the last ones shorter. A truncated episode bootstraps
  from its last observation, a terminated one does not.

  A transition has the version of the variables that chose its first action;
  later actions may come from newer variables.

  Environments reset in the step after an episode's end (gymnasium's NEXT_STEP);
  no transition contains that step.

  If observations are stacks of frames, the adder stores frame numbers instead
  of observations (`frames.FrameRing`).
  """

  def __init__(
    self,
    schema: transitions.TransitionSchema,
    num_envs: int,
    n_step: int,
    discount: float,
    priority: Priority | None = None,
  ):
    """Makes an adder that has no unfinished transitions.

    Args:
      discount: gamma, per environment step; learners use `discount_t` only.
      priority: function that computes first priorities, from float32 extras;
        None: all are 1.
    """
    self._schema, self._priority = schema, priority
    self._n = n_step
    self._discounts = discount ** np.arange(n_step + 1, dtype=np.float32)
    self._frames = None
    stack = schema.stacked_frames
    if stack:
      self._frames = frames_lib.FrameRing(
        num_envs, schema.observation_shape, schema.ring_steps
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
    self._extras = {
      name: np.zeros((n_step, num_envs), np.float32)
      for name in (priority.step_extras if priority is not None else ())
    }
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

    Returns the items of transitions that end in `observation`. Those that end
    in `next_observation` come with the next call, which gets its value.
    """
    del next_observation
    if self._frames is not None:
      observation = self._frames.add(observation, first)
    items = self._complete_transitions(observation, output)
    slot, real = self._slot, ~first
    self._observations[slot] = observation
    self._actions[slot] = output.action
    for name, values in self._extras.items():
      values[slot] = output.extras[name]
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

  def _complete_transitions(
    self, observation: np.ndarray, output: ActorOutput
  ) -> Items | None:
    """Removes and packs the transitions that end in an observation."""
    extras = output.extras
    done = (self._ages == self._n) | (self._ended & (self._ages > 0))
    slots, envs = np.nonzero(done)
    if not len(slots):
      return None
    ages = self._ages[slots, envs]
    rewards = self._returns[slots, envs]
    discounts = self._discounts[ages] * ~self._terminated[envs]
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
    if transitions.NEXT_ACTION in self._schema.record.fields:
      fields[transitions.NEXT_ACTION] = output.action[envs]
    found = np.ones(len(slots), np.float32)
    if self._priority is not None:
      found = self._priority(
        {
          **fields,
          **{name: x[slots, envs] for name, x in self._extras.items()},
          **{x: extras[x][envs] for x in self._priority.observation_extras},
        }
      )
    frames = None
    if self._frames is not None:
      offsets = np.minimum(ages, self._schema.stacked_frames)
      fields[transitions.FRAME_OFFSET] = offsets
      ids = self._frame_ids(fields["o_tm1"], fields["o_t"], offsets)
      frames = frames_lib.FrameIds(ids, self._frames)
    self._ages[slots, envs] = 0
    return self.pack(fields, found, frames)

  def pack(
    self,
    fields: Mapping[str, np.ndarray],
    priorities: np.ndarray,
    frames: frames_lib.FrameIds | None = None,
  ) -> Items | None:
    """Packs transitions, and returns the items that are complete now.

    Args:
      fields: the fields of M transitions by name, [M, ...].
      priorities: their first priorities, float32 [M].
      frames: their frame numbers, with stacked frames.
    """
    records = self._schema.record.pack(fields)
    if self._grouping is None:
      return Items(records, priorities, frames)
    full = self._grouping.add(records, priorities)
    return full and Items(*full)

  def _frame_ids(
    self, before: np.ndarray, after: np.ndarray, offsets: np.ndarray
  ) -> np.ndarray:
    """Returns the frames of M items: padding, o_tm1's and o_t's."""
    # An item must not have the same frame twice in succession: Reverb would
    # store both in one chunk, which it can neither read nor reject. So padding
    # ends with a frame of o_t, which is never the oldest frame of o_tm1.
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
    """Returns a copy of the adder's state, such as unfinished transitions."""
    state = {
      name: copy.deepcopy(getattr(self, name)) for name in _STATE_ATTRIBUTES
    }
    if self._frames is not None:
      state["frames"] = self._frames.get_state()
    if self._grouping is not None:
      state["grouping"] = self._grouping.get_state()
    if self._running is not None:
      state["running"] = self._running.values.copy()
      state["running_returns"] = self._running_returns.copy()
    return state

  def set_state(self, state: Mapping[str, typing.Any]) -> None:
    """Restores a result of `get_state` of an adder with equal arguments."""
    for name in _STATE_ATTRIBUTES:
      setattr(self, name, copy.deepcopy(state[name]))
    if self._frames is not None:
      self._frames.set_state(state["frames"])
    if self._grouping is not None:
      self._grouping.set_state(state["grouping"])
    if self._running is not None:
      self._running.values = state["running"].copy()
      self._running_returns = state["running_returns"].copy()
