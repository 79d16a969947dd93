"""Actors of the DQN family: epsilon-greedy and greedy."""

import typing
from collections.abc import Mapping

import numpy as np

from agents.dqn import exploration
from agents.networks import inference as inference_lib
from replay import adder as adder_lib


class EpsilonGreedyActor:
  """Explores, and tells the adder what it thought of each action."""

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
    self._epsilons = epsilons
    self._random = np.random.default_rng(seed)

  def act(self, observation: np.ndarray) -> adder_lib.Decision:
    """Decides on observations [B, ...]."""
    q_t = self._inference(observation)  # [B, A]
    batch_size, num_actions = q_t.shape
    action = q_t.argmax(axis=1).astype(np.int32)
    rows = np.arange(batch_size)
    value_of_state = q_t[rows, action]
    if self._epsilons is not None:
      explore = self._random.random(batch_size) < self._epsilons.next()
      other = self._random.integers(num_actions, size=batch_size)
      action = np.where(explore, other, action).astype(np.int32)
    return adder_lib.Decision(action, q_t[rows, action], value_of_state)

  def load(self, variables: Mapping[str, np.ndarray]) -> None:
    """Takes over a learner's variables."""
    self._inference.load(variables)

  def get_state(self) -> dict[str, typing.Any]:
    """The random numbers' state, and how far exploration has come."""
    return {
      "random": self._random.bit_generator.state,
      "env_steps": self._epsilons and self._epsilons.env_steps,
    }

  def set_state(self, state: Mapping[str, typing.Any]) -> None:
    """Goes on as the actor would have whose state was taken."""
    self._random.bit_generator.state = state["random"]
    if self._epsilons is not None:
      self._epsilons.env_steps = state["env_steps"]
