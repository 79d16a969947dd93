"""Actors of R2D2: epsilon-greedy and greedy, with a memory of each episode."""

import typing
from collections.abc import Mapping

import numpy as np

from slipway.agents import exploration
from slipway.agents.networks import action_masks
from slipway.agents.networks import network as network_lib
from slipway.replay.items import adder as adder_lib

STATE = "state"  # extra: float32 [B, S], recurrent, before the observations


class RecurrentActor:
  """Acts on what it has seen of each environment's episode."""

  def __init__(
    self,
    network: network_lib.ActingNetwork,
    state_size: int,
    epsilons: exploration.Epsilons | None,
    seed: int,
    mask: action_masks.ActionMask | None = None,
  ):
    """Starts without variables, before the first episodes.

    Args:
      network: acts as a `recurrent_q_network.RecurrentQNetwork`.
      state_size: S, of one environment.
      epsilons: of each environment; None: always greedy.
      seed: of its own random numbers.
      mask: reads which actions are legal; None: all are.
    """
    self._network, self._mask, self._state_size = network, mask, state_size
    self._explorer = exploration.Explorer(epsilons, seed)
    self._state = np.zeros((0, state_size), np.float32)  # [B, S]
    self._action = np.zeros(0, np.int32)  # [B], the last ones

  def act(
    self, observation: np.ndarray, reward: np.ndarray, first: np.ndarray
  ) -> adder_lib.ActorOutput:
    """Acts on observations [B, ...] and on what came before them.

    Args:
      observation: [B, ...].
      reward: [B] float32, of the steps that led to them.
      first: [B] bool, the observations that begin episodes: for them, what
        came before is forgotten.
    """
    if len(self._action) != len(observation):
      self._begin(len(observation))
    before = self._state
    q_t, self._state = self._network(
      observation, self._action, reward, first, before
    )
    legal = None if self._mask is None else self._mask.find_legal(observation)
    output = self._explorer.choose(q_t, legal)
    self._action = output.action
    return output._replace(extras={**output.extras, STATE: before})

  def load(self, variables: Mapping[str, np.ndarray]) -> None:
    """Takes over a learner's variables."""
    self._network.load(variables)

  def get_state(self) -> dict[str, typing.Any]:
    """Random numbers, how far exploration has come, and the memory."""
    return {
      **self._explorer.get_state(),
      "state": self._state,
      "action": self._action,
    }

  def set_state(self, state: Mapping[str, typing.Any]) -> None:
    """Continues as the actor would have whose state was taken."""
    self._explorer.set_state(state)
    self._state, self._action = state["state"], state["action"]

  def _begin(self, batch_size: int) -> None:
    self._state = np.zeros((batch_size, self._state_size), np.float32)
    self._action = np.zeros(batch_size, np.int32)
