"""Actors of the DQN family: epsilon-greedy and greedy."""

import typing
from collections.abc import Mapping

import numpy as np

from agents import exploration
from agents.networks import inference as inference_lib
from replay import adder as adder_lib


class EpsilonGreedyActor:
  """Acts by action values, which it also gives to the adder."""

  def __init__(
    self,
    inference: inference_lib.Inference,
    epsilons: exploration.Epsilons | None,
    seed: int,
  ):
    """Starts without variables.

    Args:
      inference: values of observations.
      epsilons: of each environment; None: always greedy.
      seed: of its own random numbers.
    """
    self._inference = inference
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
    return self._explorer.choose(self._inference(observation, self._noise))

  def load(self, variables: Mapping[str, np.ndarray]) -> None:
    """Takes over a learner's variables."""
    self._inference.load(variables)

  def get_state(self) -> dict[str, typing.Any]:
    """The random numbers' state, and how far exploration has come."""
    return self._explorer.get_state()

  def set_state(self, state: Mapping[str, typing.Any]) -> None:
    """Continues as the actor would have whose state was taken."""
    self._explorer.set_state(state)
