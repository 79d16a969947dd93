"""Epsilon-greedy exploration, with an epsilon for each environment."""

import typing
from collections.abc import Mapping

import ml_collections
import numpy as np

from slipway.replay.items import adder


class Epsilons:
  """The epsilons of one worker's environments.

  'ladder': environment i of N (all workers') keeps
  epsilon_i = base^(1 + i / (N - 1) * exponent), Horgan et al. 2018,
  "Distributed prioritized experience replay", section 4.1.
  'linear': all fall from epsilon_start to epsilon_end over decay_steps of all
  workers' environment steps; a worker counts its own and takes the others to
  be as fast.
  """

  def __init__(
    self,
    exploration: ml_collections.ConfigDict,
    topology: ml_collections.ConfigDict,
    worker: int,
    env_steps: int = 0,
  ):
    """Starts where this worker's environments are.

    Args:
      exploration: the part of a config.
      topology: the part of a config.
      worker: index of this worker, from 0.
      env_steps: environment steps of the processes that were this worker
        before.
    """
    self._exploration = exploration.copy_and_resolve_references()
    self._num_envs = topology.environments_per_worker
    self._workers = topology.workers
    self.env_steps = env_steps  # of this worker, with autoresets
    self._ladder = self._make_ladder(worker)

  def next(self) -> np.ndarray:
    """Epsilons float [B] for the next step of the environments."""
    steps = self.env_steps * self._workers
    self.env_steps += self._num_envs
    if self._exploration.schedule == "ladder":
      return self._ladder
    done = min(1.0, steps / self._exploration.decay_steps)
    start = self._exploration.epsilon_start
    end = self._exploration.epsilon_end
    return np.full(self._num_envs, start + done * (end - start))

  def _make_ladder(self, worker: int) -> np.ndarray:
    total = self._num_envs * self._workers
    # Interleaved: each worker has greedy and curious environments.
    rungs = worker + self._workers * np.arange(self._num_envs)
    powers = rungs / max(1, total - 1) * self._exploration.ladder_exponent
    return self._exploration.ladder_base ** (1.0 + powers)


class Explorer:
  """Chooses the best action, or any with a probability of epsilon.

  Attributes:
    random: its random numbers.
  """

  def __init__(self, epsilons: Epsilons | None, seed: int):
    """Begins.

    Args:
      epsilons: of each environment; None: always greedy.
      seed: of its random numbers.
    """
    self._epsilons = epsilons
    self.random = np.random.default_rng(seed)

  def choose(
    self, q_t: np.ndarray, legal: np.ndarray | None = None
  ) -> adder.ActorOutput:
    """Chooses by values.

    Args:
      q_t: [B, A], below all others where an action is illegal.
      legal: bool [B, A]: actions that may be explored; None: all.

    Returns:
      Actions int32 [B], with the extras from which first priorities follow.
    """
    batch_size, num_actions = q_t.shape
    action = q_t.argmax(axis=1).astype(np.int32)
    rows = np.arange(batch_size)
    value_of_state = q_t[rows, action]
    if self._epsilons is not None:
      explore = self.random.random(batch_size) < self._epsilons.next()
      if legal is None:
        other = self.random.integers(num_actions, size=batch_size)
      else:
        other = (self.random.random(q_t.shape) * legal).argmax(axis=1)
      action = np.where(explore, other, action).astype(np.int32)
    return adder.ActorOutput(
      action,
      {
        adder.VALUE_OF_ACTION: q_t[rows, action],
        adder.VALUE_OF_STATE: value_of_state,
      },
    )

  def get_state(self) -> dict[str, typing.Any]:
    """The random numbers' state, and how far exploration has come."""
    return {
      "random": self.random.bit_generator.state,
      "env_steps": self._epsilons and self._epsilons.env_steps,
    }

  def set_state(self, state: Mapping[str, typing.Any]) -> None:
    """Continues as the explorer would have whose state was taken."""
    self.random.bit_generator.state = state["random"]
    if self._epsilons is not None:
      self._epsilons.env_steps = state["env_steps"]
