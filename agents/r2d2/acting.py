"""Actors of R2D2: epsilon-greedy and greedy, with a memory of each episode."""

import typing
from collections.abc import Mapping

import numpy as np

from slipway.agents import exploration
from slipway.agents.networks import action_masks, recurrent, recurrent_q_network
from slipway.agents.networks import network as network_lib
from slipway.replay.items import adder as adder_lib


class RecurrentActor:
  """Chooses actions by recurrent values, which depend on the episode so far."""

  def __init__(
    self,
    network: recurrent_q_network.RecurrentQNetwork,
    epsilons: exploration.EpsilonSchedule | None,
    seed: int,
    mask: action_masks.MaskSplitter | None = None,
  ):
    """Starts without variables, before the first episodes.

    Args:
      network: declaration of the Q-network.
      epsilons: schedule of epsilons, or None if actions are always greedy.
      seed: seed of the actor's random numbers.
      mask: finds the legal actions, or None if all actions are legal.
    """
    self._network = network_lib.make_acting(network)
    self._memory = recurrent.ActorMemory(network.inputs)
    self._explorer, self._mask = exploration.Explorer(epsilons, seed), mask

  def act(
    self, observation: np.ndarray, reward: np.ndarray, first: np.ndarray
  ) -> adder_lib.ActorOutput:
    """Acts on observations [B, ...] and on the episodes before them.

    Args:
      observation: observations [B, ...].
      reward: float32 [B], rewards of the steps that led to the observations.
      first: bool [B], whether an observation begins an episode; the network
        then ignores the memory.
    """
    action, state = self._memory.recall(len(observation))
    q_t, next_state = self._network(observation, action, reward, first, state)
    legal = None if self._mask is None else self._mask.find_legal(observation)
    output = self._explorer.choose(q_t, legal)
    self._memory.store(output.action, next_state)
    return output._replace(extras={**output.extras, recurrent.STATE: state})

  def load(self, variables: Mapping[str, np.ndarray]) -> None:
    """Replaces the network's variables by a learner's."""
    self._network.load(variables)

  def get_state(self) -> dict[str, typing.Any]:
    """Returns the state of the explorer and a copy of the memory."""
    return {**self._explorer.get_state(), "memory": self._memory.get_state()}

  def set_state(self, state: Mapping[str, typing.Any]) -> None:
    """Restores a state that `get_state` returned."""
    self._explorer.set_state(state)
    self._memory.set_state(state["memory"])
