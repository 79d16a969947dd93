"""The actor of R2D2, epsilon-greedy or greedy, with LSTM states."""

import typing
from collections.abc import Mapping

import numpy as np

from slipway.agents import exploration
from slipway.agents.networks import action_masks, recurrent, recurrent_q_network
from slipway.agents.networks import network as network_lib
from slipway.replay.items import adder as adder_lib


class RecurrentActor:
  """Chooses epsilon-greedy or greedy actions by a recurrent Q-network.

  See `core.Actor`. The extras are action values, and LSTM states before a step.
  """

  def __init__(
    self,
    network: recurrent_q_network.RecurrentQNetwork,
    epsilons: exploration.EpsilonSchedule | None,
    seed: int,
    mask_splitter: action_masks.MaskSplitter | None = None,
  ):
    """Makes the actor; `load` must be called before `act`.

    Args:
      network: declaration of the Q-network.
      epsilons: schedule of epsilons, or None if actions are always greedy.
      seed: seed of the actor's random numbers.
      mask_splitter: splitter of masked observations, or None if observations
        have no masks.
    """
    self._network = network_lib.make_acting(network)
    self._memory = recurrent.ActorMemory(network.inputs)
    self._explorer = exploration.Explorer(epsilons, seed)
    self._mask_splitter = mask_splitter

  def act(
    self, observation: np.ndarray, reward: np.ndarray, first: np.ndarray
  ) -> adder_lib.ActorOutput:
    """Chooses actions by the observations and the episodes so far.

    Args:
      observation: observations [B, ...].
      reward: float32 [B], rewards of the steps that led to the observations.
      first: bool [B], whether an observation begins an episode. The network
        then resets the LSTM state to zero.
    """
    action, state = self._memory.recall(len(observation))
    q_t, next_state = self._network(observation, action, reward, first, state)
    splitter = self._mask_splitter
    legal = None if splitter is None else splitter.find_legal(observation)
    output = self._explorer.choose(q_t, legal)
    self._memory.store(output.action, next_state)
    return output._replace(extras={**output.extras, recurrent.STATE: state})

  def load(self, variables: Mapping[str, np.ndarray]) -> None:
    """Replaces the network's variables by those that a learner published."""
    self._network.load(variables)

  def get_state(self) -> dict[str, typing.Any]:
    """Returns a copy of the actor's state, without the network's variables.

    The state has the random generator, the epsilon schedule, the last actions
    and the LSTM states.
    """
    return {**self._explorer.get_state(), "memory": self._memory.get_state()}

  def set_state(self, state: Mapping[str, typing.Any]) -> None:
    """Restores a state that `get_state` returned."""
    self._explorer.set_state(state)
    self._memory.set_state(state["memory"])
