"""The actor of algorithms that learn action values q(o, a)."""

import typing
from collections.abc import Mapping

import numpy as np

from slipway.agents import exploration
from slipway.agents.networks import action_masks, recurrent
from slipway.agents.networks import network as network_lib
from slipway.replay.items import adder

# Names of the actor's extras, float32 [B] each, from which first priorities are
# computed: q(o_t, a_t), and max_a q(o_t, a).
VALUE_OF_ACTION, VALUE_OF_STATE = "value_of_action", "value_of_state"


class EpsilonGreedyActor:
  """Chooses epsilon-greedy or greedy actions by a Q-network.

  Feed-forward and recurrent networks are supported; see `core.Actor`.
  """

  def __init__(
    self,
    network: network_lib.ActingNetwork,
    epsilons: exploration.EpsilonSchedule | float,
    seed: int,
    mask_splitter: action_masks.MaskSplitter | None = None,
    memory: recurrent.ActorMemory | None = None,
  ):
    """Makes the actor; `load` must be called before `act`.

    Args:
      network: acting network of a `q_network.QNetwork`, or of a
        `recurrent_q_network.RecurrentQNetwork` if there is a memory.
      epsilons: schedule of a worker's epsilons, or the constant epsilon of
        evaluations, in which noisy layers have no noise; 0.0: greedy.
      mask_splitter: splitter of masked observations, or None if observations
        have no masks.
      memory: memory of a recurrent network, or None for a feed-forward one.
    """
    self._network = network
    explores = isinstance(epsilons, exploration.EpsilonSchedule)
    self._schedule = epsilons if explores else None
    self._constant = 0.0 if explores else epsilons
    self._random = np.random.default_rng(seed)
    self._mask_splitter, self._memory = mask_splitter, memory

  def act(
    self, observation: np.ndarray, reward: np.ndarray, first: np.ndarray
  ) -> adder.ActorOutput:
    if self._memory is None:
      noise = None if self._schedule is None else self._random
      q_t = self._network(observation, random=noise).choice
      return self._choose(observation, q_t)
    action_before, state_before = self._memory.recall(len(observation))
    q_t, state = self._network(
      observation, action_before, reward, first, state_before
    )
    output = self._choose(observation, q_t)
    self._memory.store(output.action, state)
    return output._replace(
      extras={**output.extras, recurrent.STATE: state_before}
    )

  def log_prob(self, observation: np.ndarray, action: np.ndarray) -> np.ndarray:
    """Returns log pi(action given observation) of a constant epsilon, [B].

    Args:
      observation: observations of a feed-forward network, [B, ...].
      action: legal actions, int32 [B].
    """
    q_t = self._network(observation).choice
    legal = np.ones(q_t.shape, bool)
    if self._mask_splitter is not None:
      legal = self._mask_splitter.find_legal(observation)
    is_greedy = q_t.argmax(axis=1) == action
    explores = self._constant / legal.sum(axis=1)
    with np.errstate(divide="ignore"):
      return np.log((1.0 - self._constant) * is_greedy + explores)

  def load(self, variables: Mapping[str, np.ndarray]) -> None:
    self._network.load(variables)

  def get_state(self) -> dict[str, typing.Any]:
    state: dict[str, typing.Any] = {
      "random": self._random.bit_generator.state,
      "env_steps": self._schedule and self._schedule.env_steps,
    }
    if self._memory is not None:
      state["memory"] = self._memory.get_state()
    return state

  def set_state(self, state: Mapping[str, typing.Any]) -> None:
    self._random.bit_generator.state = state["random"]
    if self._schedule is not None:
      self._schedule.env_steps = state["env_steps"]
    if self._memory is not None:
      self._memory.set_state(state["memory"])

  def _choose(
    self, observation: np.ndarray, q_t: np.ndarray
  ) -> adder.ActorOutput:
    batch_size, num_actions = q_t.shape
    action = q_t.argmax(axis=1).astype(np.int32)
    rows = np.arange(batch_size)
    value_of_state = q_t[rows, action]
    if self._schedule is not None or self._constant:
      epsilons = self._schedule.next() if self._schedule else self._constant
      explore = self._random.random(batch_size) < epsilons
      if self._mask_splitter is None:
        other = self._random.integers(num_actions, size=batch_size)
      else:
        legal = self._mask_splitter.find_legal(observation)
        other = (self._random.random(q_t.shape) * legal).argmax(axis=1)
      action = np.where(explore, other, action).astype(np.int32)
    return adder.ActorOutput(
      action,
      {
        VALUE_OF_ACTION: q_t[rows, action],
        VALUE_OF_STATE: value_of_state,
      },
    )
