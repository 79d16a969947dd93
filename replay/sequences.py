"""Sequences: windows of what an environment went through, for recurrent agents.

A window has T + 1 observations and the T steps between them, and may go over
the end of an episode: where it does, `first` says so, and the recurrent state
starts anew there. Adjacent windows share `overlap` steps. Kapturowski et al.
2019, "Recurrent experience replay in distributed reinforcement learning",
section 2.3.
"""

import typing
from collections.abc import Callable, Mapping

import numpy as np
from acme import specs

from replay import adder as adder_lib
from replay import packing, priorities, transitions


class Sequence(typing.NamedTuple):
  """A window; a batch of them has a leading [B] in each field."""

  observation: typing.Any  # [T + 1, ...]
  action: typing.Any  # [T] int32
  reward: typing.Any  # [T] float32
  discount: typing.Any  # [T] float32: gamma, or 0 where terminated
  ended: typing.Any  # [T] bool: the step was the last one of its episode
  first: typing.Any  # [T + 1] bool: the observation begins an episode
  action_before: typing.Any  # [] int32, of the step before the window
  reward_before: typing.Any  # [] float32, the same
  state: typing.Any  # [S] float32, recurrent, before the first observation


class SequenceLayout:
  """How a `Sequence` lies in the bytes of an item: one row.

  Attributes:
    kind: what a batch is given out as.
    row: packing of the row.
    item_shape: of an item, uint8.
    steps: T.
    transitions_per_item: 1: each item is drawn for itself.
  """

  kind = Sequence
  transitions_per_item = 1

  def __init__(self, spec: specs.EnvironmentSpec, steps: int, state_size: int):
    """Lays out what `spec` describes.

    Args:
      spec: of one environment with discrete actions.
      steps: T.
      state_size: S.
    """
    observations = spec.observations
    flag, number = np.dtype(bool), np.dtype(np.float32)
    action = spec.actions.dtype
    self.steps = steps
    self.row = packing.Packing(
      {
        "observation": (observations.dtype, (steps + 1, *observations.shape)),
        "action": (action, (steps,)),
        "reward": (number, (steps,)),
        "discount": (number, (steps,)),
        "ended": (flag, (steps,)),
        "first": (flag, (steps + 1,)),
        "action_before": (action, ()),
        "reward_before": (number, ()),
        "state": (number, (state_size,)),
        transitions.VERSION: (np.dtype(np.int64), ()),
      }
    )
    self.item_shape = (self.row.row_bytes,)

  def kept_cells(self, num_envs: int) -> int:
    """0: each item is whole."""
    del num_envs
    return 0


def n_step_targets(
  reward: np.ndarray,
  discount: np.ndarray,
  ended: np.ndarray,
  values: np.ndarray,
  n: int,
) -> np.ndarray:
  """n-step returns within windows, for NumPy arrays.

    G_t(n) = R_{t+1} + d_{t+1} (v_{t+1} if n = 1 or t + 1 ends the episode or
             the window, else G_{t+1}(n - 1))

  Args:
    reward: [B, T].
    discount: [B, T], 0 where terminated.
    ended: [B, T] bool.
    values: [B, T], of the observations after each step.
    n: steps.

  Returns:
    [B, T].
  """
  targets = values
  for k in range(n):
    later = np.concatenate([targets[:, 1:], values[:, -1:]], axis=1)
    bootstrap = values if k == 0 else np.where(ended, values, later)
    targets = reward + discount * bootstrap
  return targets


def mixed_priority(
  errors: np.ndarray, learned: np.ndarray, eta: float
) -> np.ndarray:
  """eta max_t |delta_t| + (1 - eta) mean_t |delta_t|, float32 [B].

  Kapturowski et al. 2019, section 2.3.

  Args:
    errors: [B, T], 0 where nothing was learned.
    learned: [B, T] bool.
    eta: the part of the maximum.
  """
  size = np.abs(errors)
  mean = size.sum(axis=1) / np.maximum(learned.sum(axis=1), 1)
  return (eta * size.max(axis=1) + (1 - eta) * mean).astype(np.float32)


class Thoughts(typing.NamedTuple):
  """What its first priority is made of; of windows [B]."""

  reward: np.ndarray  # [B, T]
  discount: np.ndarray  # [B, T]
  ended: np.ndarray  # [B, T]
  first: np.ndarray  # [B, T + 1]
  value_of_action: np.ndarray  # [B, T]: q(o_t, a_t), as its worker had it
  value_of_state: np.ndarray  # [B, T + 1]: max_a q(o_t, a), the same


class SequenceAdder:
  """Turns steps of B environments into overlapping windows with priorities.

  The step in which an environment resets itself (gymnasium's NEXT_STEP) stays
  in the window, so that windows are a stream; `first` after it marks it.
  """

  def __init__(
    self,
    layout: SequenceLayout,
    num_envs: int,
    period: int,
    discount: float,
    priority: Callable[[Thoughts], np.ndarray],
  ):
    """Starts with no step.

    Args:
      layout: of an item.
      num_envs: B, the environments stepped at once.
      period: steps from one window's start to the next one's.
      discount: gamma, per environment step.
      priority: float32 [B], of windows.
    """
    self._layout, self._num_envs = layout, num_envs
    self._period, self._discount = period, discount
    self._priority = priority
    self._steps: list[dict[str, typing.Any]] = []
    self._before = {
      "action_before": np.zeros(num_envs, np.int32),
      "reward_before": np.zeros(num_envs, np.float32),
    }
    self._first = np.ones(num_envs, bool)

  def add(
    self,
    observation: np.ndarray,
    decision: adder_lib.Decision,
    reward: np.ndarray,
    terminated: np.ndarray,
    truncated: np.ndarray,
    first: np.ndarray,
    version: int,
  ) -> adder_lib.Items | None:
    """Adds one step of every environment; see `adder.NStepAdder.add`."""
    items = None
    if len(self._steps) == self._layout.steps:
      items = self._close(observation, decision)
      del self._steps[: self._period]
    self._steps.append(
      {
        "observation": observation,
        "action": decision.action,
        "reward": np.where(first, 0.0, reward).astype(np.float32),
        "discount": (self._discount * ~terminated).astype(np.float32),
        "ended": terminated | truncated,
        "first": self._first,
        "state": decision.state,
        "value_of_action": decision.value_of_action,
        "value_of_state": decision.value_of_state,
        "version": np.full(self._num_envs, version),
        **self._before,
      }
    )
    self._first = first
    self._before = {"action_before": decision.action, "reward_before": reward}
    return items

  def _close(
    self, observation: np.ndarray, decision: adder_lib.Decision
  ) -> adder_lib.Items:
    """The windows of all environments that end in `observation`."""

    def column(name: str) -> np.ndarray:
      return np.stack([step[name] for step in self._steps], axis=1)

    start = self._steps[0]
    fields = {
      "observation": np.concatenate(
        [column("observation"), observation[:, None]], axis=1
      ),
      "first": np.concatenate([column("first"), self._first[:, None]], axis=1),
      **{x: column(x) for x in ("action", "reward", "discount", "ended")},
      **{x: start[x] for x in ("action_before", "reward_before", "state")},
      transitions.VERSION: start["version"],
    }
    values = np.concatenate(
      [column("value_of_state"), decision.value_of_state[:, None]], axis=1
    )
    found = self._priority(
      Thoughts(
        fields["reward"],
        fields["discount"],
        fields["ended"],
        fields["first"],
        column("value_of_action"),
        values,
      )
    )
    priorities.check(found)
    return adder_lib.Items(self._layout.row.pack(fields), found)

  def get_state(self) -> dict[str, typing.Any]:
    """The open window, in arrays of the caller's own."""
    return {
      "steps": [
        {name: x.copy() for name, x in step.items()} for step in self._steps
      ],
      "before": {name: x.copy() for name, x in self._before.items()},
      "first": self._first.copy(),
    }

  def set_state(self, state: Mapping[str, typing.Any]) -> None:
    """Goes on with the window that was open elsewhere."""
    self._steps = [dict(step) for step in state["steps"]]
    self._before, self._first = state["before"], state["first"]
