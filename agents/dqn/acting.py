"""Actors of the DQN family: epsilon-greedy and greedy."""

import typing
from collections.abc import Mapping

import numpy as np

from slipway.agents import exploration
from slipway.agents.networks import action_masks
from slipway.agents.networks import network as network_lib
from slipway.replay.items import adder as adder_lib


class EpsilonGreedyActor:
  """Acts by action values, which it also gives to the adder."""

  def __init__(
    self,
    network: network_lib.ActingNetwork,
    epsilons: exploration.Epsilons | None,
    seed: int,
    mask: action_masks.ActionMask | None = None,
  ):
    """Starts without variables.

    Args:
      network: acts as a `q_network.QNetwork`.
      epsilons: of each environment; None: always greedy.
      seed: of its own random numbers.
      mask: reads which actions are legal; None: all are.
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
    """Acts on observations [B, ...]; the other arguments have no effect."""
    del reward, first
    q_t = self._network(observation, random=self._noise).values
    legal = None if self._mask is None else self._mask.find_legal(observation)
    return self._explorer.choose(q_t, legal)

  def load(self, variables: Mapping[str, np.ndarray]) -> None:
    """Takes over a learner's variables."""
    self._network.load(variables)

  def get_state(self) -> dict[str, typing.Any]:
    """The random numbers' state, and how far exploration has come."""
    return self._explorer.get_state()

  def set_state(self, state: Mapping[str, typing.Any]) -> None:
    """Continues as the actor would have whose state was taken."""
    self._explorer.set_state(state)
