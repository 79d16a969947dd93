"""The actor of the DQN family, epsilon-greedy or greedy."""

import typing
from collections.abc import Mapping

import numpy as np

from slipway.agents import exploration
from slipway.agents.networks import action_masks
from slipway.agents.networks import network as network_lib
from slipway.replay.items import adder as adder_lib


class EpsilonGreedyActor:
  """Chooses epsilon-greedy or greedy actions by a Q-network; see `core.Actor`.

  The extras are action values, from which the adder computes priorities.
  """

  def __init__(
    self,
    network: network_lib.ActingNetwork,
    epsilons: exploration.EpsilonSchedule | None,
    seed: int,
    mask_splitter: action_masks.MaskSplitter | None = None,
  ):
    """Makes the actor; `load` must be called before `act`.

    Args:
      network: acting network of a `q_network.QNetwork`.
      epsilons: schedule of epsilons, or None if actions are always greedy.
      seed: seed of the actor's random numbers.
      mask_splitter: splitter of masked observations, or None if observations
        have no masks.
    """
    self._network, self._mask_splitter = network, mask_splitter
    self._explorer = exploration.Explorer(epsilons, seed)
    self._noise = None if epsilons is None else self._explorer.random

  def act(
    self,
    observation: np.ndarray,
    reward: np.ndarray | None = None,
    first: np.ndarray | None = None,
  ) -> adder_lib.ActorOutput:
    """Chooses actions for observations [B, ...].

    The other arguments of `core.Actor` are ignored.
    """
    del reward, first
    q_t = self._network(observation, random=self._noise).values
    splitter = self._mask_splitter
    legal = None if splitter is None else splitter.find_legal(observation)
    return self._explorer.choose(q_t, legal)

  def load(self, variables: Mapping[str, np.ndarray]) -> None:
    """Replaces the network's variables by those that a learner published."""
    self._network.load(variables)

  def get_state(self) -> dict[str, typing.Any]:
    """Returns the states of the random generator and the epsilon schedule."""
    return self._explorer.get_state()

  def set_state(self, state: Mapping[str, typing.Any]) -> None:
    """Restores a state that `get_state` returned."""
    self._explorer.set_state(state)
