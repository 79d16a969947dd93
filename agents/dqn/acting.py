"""Actors of the DQN family: epsilon-greedy and greedy."""

import typing
from collections.abc import Mapping

import numpy as np

from slipway.agents import exploration
from slipway.agents.networks import action_masks
from slipway.agents.networks import network as network_lib
from slipway.replay.items import adder as adder_lib


class EpsilonGreedyActor:
  """Chooses actions by their values, and passes the values to the adder."""

  def __init__(
    self,
    network: network_lib.ActingNetwork,
    epsilons: exploration.EpsilonSchedule | None,
    seed: int,
    mask: action_masks.MaskSplitter | None = None,
  ):
    """Starts without variables.

    Args:
      network: acting network of a `q_network.QNetwork`.
      epsilons: schedule of epsilons, or None if actions are always greedy.
      seed: seed of the actor's random numbers.
      mask: finds the legal actions, or None if all actions are legal.
    """
    self._network, self._mask = network, mask
    self._explorer = exploration.Explorer(epsilons, seed)
    self._noise = None if epsilons is None else self._explorer.random

  def act(
    self,
    observation: np.ndarray,
    reward: np.ndarray | None = None,
    first: np.ndarray | None = None,
  ) -> adder_lib.ActorOutput:
    """Chooses actions for observations [B, ...]; ignores other arguments."""
    del reward, first
    q_t = self._network(observation, random=self._noise).values
    legal = None if self._mask is None else self._mask.find_legal(observation)
    return self._explorer.choose(q_t, legal)

  def load(self, variables: Mapping[str, np.ndarray]) -> None:
    """Replaces the network's variables by a learner's."""
    self._network.load(variables)

  def get_state(self) -> dict[str, typing.Any]:
    """Returns the state of the random numbers and of the epsilon schedule."""
    return self._explorer.get_state()

  def set_state(self, state: Mapping[str, typing.Any]) -> None:
    """Restores a state that `get_state` returned."""
    self._explorer.set_state(state)
