"""Sequence adder: forms sequences of T steps from steps of environments.

Sequences that start less than T steps apart overlap (Kapturowski et al. 2019,
"Recurrent experience replay in distributed reinforcement learning", section
2.3). Sequences that start T steps apart are rollouts; successive rollouts share
one observation.
"""

import typing
from collections.abc import Mapping

import numpy as np

from slipway.replay.items import adder as adder_lib
from slipway.replay.items import priorities, returns, sequences, transitions


class SequenceAdder:
  """Adder that forms sequences of T steps from the steps of B environments.

  A sequence also contains the steps in which environments reset (gymnasium's
  NEXT_STEP). So all environments start and end their sequences together.
  `Sequence.first` marks the observation after a reset.
  """

  def __init__(
    self,
    schema: sequences.SequenceSchema,
    num_envs: int,
    period: int,
    discount: float,
    priority: adder_lib.Priority | None = None,
  ):
    """Makes an adder without steps.

    Args:
      period: steps from the start of a sequence to the start of the next, at
        most T.
      priority: function that computes first priorities; None: all are 1.

    If the schema or the priority has extras of observations, `add` returns a
    sequence one call after its last step, since that of the last observation is
    known only then; else in the call of its last step.
    """
    self._schema, self._num_envs = schema, num_envs
    self._period, self._discount = period, discount
    self._priority = priority
    self._running = None
    if returns.FIELD in schema.step_extras:
      self._running = returns.RunningReturns(num_envs, discount)
    step_names = [x for x in schema.step_extras if x != returns.FIELD]
    self._observation_extras = tuple(schema.observation_extras)
    if priority is not None:
      step_names += priority.step_extras
      self._observation_extras += priority.observation_extras
    self._stored = tuple(
      {*step_names, *schema.start_extras, *self._observation_extras}
    )
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
    if self._observation_extras:
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
    if not self._observation_extras:
      items = self._complete_sequences(next_observation, {})
    return items

  def _complete_sequences(
    self, observation: np.ndarray, extras: Mapping[str, np.ndarray]
  ) -> adder_lib.Items | None:
    """Packs the B sequences that end in an observation, after T steps."""
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
    of_observations = {
      name: np.concatenate([column(name), extras[name][:, None]], axis=1)
      for name in self._observation_extras
    }
    fields = {
      **observations,
      "first": first,
      **{x: column(x) for x in ("action", "reward", "discount", "ended")},
      **{x: column(x) for x in self._schema.step_extras},
      **of_observations,
      **{x: start[x] for x in self._schema.start_extras},
      **{x: start[x] for x in ("action_before", "reward_before")},
      transitions.VERSION: column(transitions.VERSION),
    }
    found = np.ones(self._num_envs, np.float32)
    if self._priority is not None:
      steps = {x: column(x) for x in self._priority.step_extras}
      found = self._priority({**fields, **steps})
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
