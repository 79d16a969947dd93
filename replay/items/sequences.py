"""Sequences: windows of steps, for recurrent and on-policy learning.

A window has T + 1 observations and the T steps between them. It may contain the
end of an episode: the observation after it has `first` set, and a recurrent
state starts from zero there. Windows that start less than T steps apart overlap
(Kapturowski et al. 2019, "Recurrent experience replay in distributed
reinforcement learning", section 2.3). Windows that start T steps apart are
rollouts, which share one observation with the next.

Stacked frames are stored once per window (`frame_windows`).
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
  """A window of T steps; in a batch, each field has a leading [B]."""

  observation: typing.Any  # [T + 1, ...]
  action: typing.Any  # [T, ...], of the spec's dtype and shape
  reward: typing.Any  # [T] float32
  discount: typing.Any  # [T] float32: gamma, or 0 where terminated
  ended: typing.Any  # [T] bool: the step was the last one of its episode
  first: typing.Any  # [T + 1] bool: the observation begins an episode
  action_before: typing.Any  # [...], action of the step before the window
  reward_before: typing.Any  # [] float32, reward of the same step
  extras: typing.Any  # by name: [T, ...] of each step, or [...] of the first


class SequenceSchema:
  """Item schema of a `Sequence`: one packed record.

  Attributes:
    record: packing of the record.
    item_shape: shape of an item, uint8.
    steps: T.
    windows: packing of the observations of a window that are stacks of frames;
      None: observations are stored whole.
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
    """Makes the schema for an environment.

    Args:
      spec: spec of one environment.
      steps: T.
      step_extras: extras of each step, as in the class's attributes.
      start_extras: extras of the first step, as in the class's attributes.
      stacked_frames: S, frames in an observation, its first axis; 0: whole
        observations.

    Raises:
      ValueError: observations are no stack of so many uint8 frames.
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
    """Returns 0: items never refer to frame records that were sent before."""
    del num_envs
    return 0

  def make_sequence(self, fields: dict[str, typing.Any]) -> Sequence:
    """Returns fields of a record, without the version, as a `Sequence`."""
    names = (*self.step_extras, *self.start_extras)
    extras = {name: fields.pop(name) for name in names}
    return Sequence(**fields, extras=extras)


def n_step_targets(
  reward: np.ndarray,
  discount: np.ndarray,
  ended: np.ndarray,
  values: np.ndarray,
  n: int,
) -> np.ndarray:
  """Returns the n-step returns within windows, of NumPy arrays.

    G_t(n) = R_{t+1} + d_{t+1} (v_{t+1} if n = 1 or t + 1 ends the episode or
             the window, else G_{t+1}(n - 1))

  Args:
    reward: [B, T].
    discount: [B, T], 0 where terminated.
    ended: [B, T] bool.
    values: [B, T], of the observation after each step.
    n: steps, at least 1.

  Returns:
    [B, T].
  """
  targets = values
  for k in range(n):
    later = np.concatenate([targets[:, 1:], values[:, -1:]], axis=1)
    bootstrap = values if k == 0 else np.where(ended, values, later)
    targets = reward + discount * bootstrap
  return targets


class PriorityInputs(typing.NamedTuple):
  """Inputs from which the first priorities of B windows are computed."""

  reward: np.ndarray  # [B, T]
  discount: np.ndarray  # [B, T]
  ended: np.ndarray  # [B, T]
  first: np.ndarray  # [B, T + 1]
  value_of_action: np.ndarray  # [B, T]: q(o_t, a_t), computed by the actor
  value_of_state: np.ndarray  # [B, T + 1]: max_a q(o_t, a), computed by it


class SequenceAdder:
  """Forms windows of T steps from steps of B environments.

  The step in which an environment resets (gymnasium's NEXT_STEP) is part of the
  window, so that windows form a stream; `first` marks the observation after it.
  """

  def __init__(
    self,
    schema: SequenceSchema,
    num_envs: int,
    period: int,
    discount: float,
    priority: Callable[[PriorityInputs], np.ndarray] | None = None,
  ):
    """Starts without steps.

    Args:
      schema: schema of an item.
      num_envs: B, the environments stepped at once.
      period: steps from the start of a window to the start of the next, at
        most T.
      discount: gamma, per environment step.
      priority: returns priorities float32 [B] of windows. It needs the value of
        a window's last observation, so `add` returns a window in the call
        after its last step. None: all priorities are 1, and `add` returns a
        window in the call of its last step.
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
    """Adds one step of every environment; see `slipway.agents.core.Adder`."""
    items = None
    if self._priority is not None:
      items = self._close(observation, output.extras)
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
      items = self._close(next_observation, {})
    return items

  def _close(
    self, observation: np.ndarray, extras: Mapping[str, np.ndarray]
  ) -> adder_lib.Items | None:
    """Returns the windows that end in `observation`, if they are complete.

    Args:
      observation: [B, ...].
      extras: extras of the actor for `observation`; empty if it has not acted
        yet.
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
    """Returns a copy of the unfinished window."""
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
    """Restores the unfinished window of an adder with equal arguments."""
    self._steps = [dict(step) for step in state["steps"]]
    self._before, self._first = state["before"], state["first"]
    if self._running is not None:
      self._running.values = state["running"]
