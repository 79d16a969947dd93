"""Sequences of T steps, for recurrent and on-policy learning.

A sequence has T steps and the T + 1 observations around them. It may contain
the end of an episode. The first observation of the next episode is marked in
`first`, and recurrent states are reset to zero there.

Sequences that start less than T steps apart overlap (Kapturowski et al. 2019,
"Recurrent experience replay in distributed reinforcement learning", section
2.3). Sequences that start T steps apart are rollouts; successive rollouts share
one observation.

Stacked frames are stored once per sequence (`frame_windows`).
"""

import typing
from collections.abc import Callable, Mapping

import numpy as np
from acme import specs

from slipway.replay.items import adder as adder_lib
from slipway.replay.items import (
  frame_windows,
  frames,
  packing,
  priorities,
  returns,
  transitions,
)


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
    extras: the actor's extras by name, [T, ...] if stored for each step, [...]
      if stored for the first step only.
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
  ):
    """Makes the schema for an environment's specs.

    Args:
      spec: spec of one environment.
      steps: T, steps of a sequence.
      step_extras: dtype and shape, by name, of extras stored for each step.
      start_extras: dtype and shape, by name, of extras stored for the first
        step only.
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
        **self.start_extras,
        transitions.VERSION: (np.dtype(np.int64), (steps,)),
      },
      multiple_of,
    )
    self.item_shape = (self.record.record_bytes,)

  def kept_frame_records(self, num_envs: int) -> int:
    """Returns 0, as sequences have no frame records.

    Args:
      num_envs: number of environments of the writer; has no effect.
    """
    del num_envs
    return 0

  def make_sequence(self, fields: dict[str, typing.Any]) -> Sequence:
    """Converts a record's fields to a `Sequence`.

    Args:
      fields: fields by name, without `transitions.VERSION`; modified.
    """
    names = (*self.step_extras, *self.start_extras)
    extras = {name: fields.pop(name) for name in names}
    return Sequence(**fields, extras=extras)


class PriorityInputs(typing.NamedTuple):
  """Inputs from which a worker computes the first priorities of B sequences.

  The first four fields are those of `Sequence`. The last two are extras of the
  actor.
  """

  reward: np.ndarray  # [B, T]
  discount: np.ndarray  # [B, T]
  ended: np.ndarray  # [B, T]
  first: np.ndarray  # [B, T + 1]
  value_of_action: np.ndarray  # [B, T]: q(o_t, a_t)
  value_of_state: np.ndarray  # [B, T + 1]: max_a q(o_t, a)


class SequenceAdder:
  """Adder that forms sequences of T steps from the steps of B environments.

  A sequence also contains the steps in which environments reset (gymnasium's
  NEXT_STEP). So all environments start and end their sequences together.
  `Sequence.first` marks the observation after a reset.
  """

  def __init__(
    self,
    schema: SequenceSchema,
    num_envs: int,
    period: int,
    discount: float,
    priority: Callable[[PriorityInputs], np.ndarray] | None = None,
  ):
    """Makes an adder without steps.

    Args:
      schema: schema of an item.
      num_envs: B, the number of environments stepped at once.
      period: steps from the start of a sequence to the start of the next, at
        most T.
      discount: gamma, per environment step.
      priority: returns the priorities of B sequences, float32 [B]. It needs the
        value of a sequence's last observation, so `add` returns the sequence
        one call after its last step. None: all priorities are 1, and `add`
        returns a sequence in the call of its last step.
    """
    self._schema, self._num_envs = schema, num_envs
    self._period, self._discount = period, discount
    self._priority = priority
    self._running = None
    if returns.FIELD in schema.step_extras:
      self._running = returns.RunningReturns(num_envs, discount)
    extras = (*schema.step_extras, *schema.start_extras)
    self._stored = tuple(name for name in extras if name != returns.FIELD)
    if priority is not None:
      values = (adder_lib.VALUE_OF_ACTION, adder_lib.VALUE_OF_STATE)
      self._stored = tuple(dict.fromkeys((*self._stored, *values)))
    self._steps: list[dict[str, typing.Any]] = []
    dtype, shape = schema.record.fields["action_before"]
    self._before = {
      "action_before": np.zeros((num_envs, *shape), dtype),
      "reward_before": np.zeros(num_envs, np.float32),
    }
    self._first = np.ones(num_envs, bool)

  def add(
    self,
    observation: np.ndarray,
    output: adder_lib.ActorOutput,
    reward: np.ndarray,
    terminated: np.ndarray,
    truncated: np.ndarray,
    first: np.ndarray,
    next_observation: np.ndarray,
    version: int,
  ) -> adder_lib.Items | None:
    """Adds one step of every environment; see `slipway.agents.core.Adder`.

    Returns:
      B items, one sequence per environment, if the sequences are complete; else
      None.
    """
    items = None
    if self._priority is not None:
      items = self._complete_sequences(observation, output.extras)
    reward = np.where(first, 0.0, reward).astype(np.float32)
    self._steps.append(
      {
        "observation": observation,
        "action": output.action,
        "reward": reward,
        "discount": (self._discount * ~terminated).astype(np.float32),
        "ended": terminated | truncated,
        "first": self._first,
        transitions.VERSION: np.full(self._num_envs, version),
        **{name: output.extras[name] for name in self._stored},
        **self._before,
      }
    )
    if self._running is not None:
      self._steps[-1][returns.FIELD] = self._running.add(reward, first)
    self._first = first
    self._before = {"action_before": output.action, "reward_before": reward}
    if self._priority is None:
      items = self._complete_sequences(next_observation, {})
    return items

  def _complete_sequences(
    self, observation: np.ndarray, extras: Mapping[str, np.ndarray]
  ) -> adder_lib.Items | None:
    """Packs the B sequences that end in an observation, if T steps are there.

    Args:
      observation: observations after the last step, [B, ...].
      extras: the actor's extras for `observation`; empty if priorities do not
        need them.

    Returns:
      B items; None: the sequences have less than T steps.
    """
    if len(self._steps) < self._schema.steps:
      return None

    def column(name: str) -> np.ndarray:
      return np.stack([step[name] for step in self._steps], axis=1)

    start = self._steps[0]
    first = np.concatenate([column("first"), self._first[:, None]], axis=1)
    windows = self._schema.windows
    if windows is not None:
      before = [step["observation"] for step in self._steps]
      observations = windows.pack([*before, observation], first)
    else:
      observations = {
        "observation": np.concatenate(
          [column("observation"), observation[:, None]], axis=1
        )
      }
    fields = {
      **observations,
      "first": first,
      **{x: column(x) for x in ("action", "reward", "discount", "ended")},
      **{x: column(x) for x in self._schema.step_extras},
      **{x: start[x] for x in self._schema.start_extras},
      **{x: start[x] for x in ("action_before", "reward_before")},
      transitions.VERSION: column(transitions.VERSION),
    }
    found = np.ones(self._num_envs, np.float32)
    if self._priority is not None:
      name = adder_lib.VALUE_OF_STATE
      values = np.concatenate([column(name), extras[name][:, None]], axis=1)
      found = self._priority(
        PriorityInputs(
          fields["reward"],
          fields["discount"],
          fields["ended"],
          fields["first"],
          column(adder_lib.VALUE_OF_ACTION),
          values,
        )
      )
      priorities.check(found)
    del self._steps[: self._period]
    return adder_lib.Items(self._schema.record.pack(fields), found)

  def get_state(self) -> dict[str, typing.Any]:
    """Returns a copy of the unfinished sequences and other state."""
    state: dict[str, typing.Any] = {
      "steps": [
        {name: x.copy() for name, x in step.items()} for step in self._steps
      ],
      "before": {name: x.copy() for name, x in self._before.items()},
      "first": self._first.copy(),
    }
    if self._running is not None:
      state["running"] = self._running.values.copy()
    return state

  def set_state(self, state: Mapping[str, typing.Any]) -> None:
    """Restores a result of `get_state` of an adder with equal arguments."""
    self._steps = [dict(step) for step in state["steps"]]
    self._before, self._first = state["before"], state["first"]
    if self._running is not None:
      self._running.values = state["running"]
