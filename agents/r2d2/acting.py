"""Actors of R2D2: epsilon-greedy and greedy, with a memory of each episode."""

import typing
from collections.abc import Mapping

import numpy as np

from slipway.agents import exploration
from slipway.agents.networks import action_masks, recurrent, recurrent_q_network
from slipway.agents.networks import network as network_lib
from slipway.replay.items import adder as adder_lib


class RecurrentActor:
  """Chooses actions by an environment's whole episode so far."""

  def __init__(
    self,
    network: recurrent_q_network.RecurrentQNetwork,
    epsilons: exploration.EpsilonSchedule | None,
    seed: int,
    mask: action_masks.MaskSplitter | None = None,
  ):
    """Starts without variables, before the first episodes.

    Args:
      network: declares the action values.
      epsilons: of each environment; None: always greedy.
      seed: of its own random numbers.
      mask: reads which actions are legal; None: all are.
    """
    self._network = network_lib.make_acting(network)
    self._memory = recurrent.ActorMemory(network.inputs)
    self._explorer, self._mask = exploration.Explorer(epsilons, seed), mask

  def act(
    self, observation: np.ndarray, reward: np.ndarray, first: np.ndarray
  ) -> adder_lib.ActorOutput:
    """Acts on observations [B, ...] and on the episodes before them.

    Args:
      observation: [B, ...].
      reward: [B] float32, of the steps that led to them.
      first: [B] bool, the observations that begin episodes: for them, the
        memory is cleared.
    """
    action, state = self._memory.recall(len(observation))
    q_t, next_state = self._network(observation, action, reward, first, state)
    legal = None if self._mask is None else self._mask.find_legal(observation)
    output = self._explorer.choose(q_t, legal)
    self._memory.store(output.action, next_state)
    return output._replace(extras={**output.extras, recurrent.STATE: state})

  def load(self, variables: Mapping[str, np.ndarray]) -> None:
    """Acts by a learner's variables from now on."""
    self._network.load(variables)

  def get_state(self) -> dict[str, typing.Any]:
    """Returns random numbers, the progress of exploration, and the memory."""
    return {**self._explorer.get_state(), "memory": self._memory.get_state()}

  def set_state(self, state: Mapping[str, typing.Any]) -> None:
    """Continues as the actor would have whose state was taken."""
    self._explorer.set_state(state)
    self._memory.set_state(state["memory"])
