"""Exploration: how much each environment explores."""

import ml_collections
import numpy as np


def find_ladder_positions(
  topology: ml_collections.ConfigDict, worker: int
) -> np.ndarray:
  """Returns the positions of a worker's B environments on a ladder.

  The N environments of all workers are at i / (N - 1), interleaved, so that
  each worker has some that explore much and some that explore little. External
  processes, of which there may be any number, have the indices after those of
  the workers; they are at the places of the van der Corput sequence, 0, 1/2,
  1/4, 3/4, 1/8, ..., which any number of its elements fills evenly.

  Args:
    worker: index of a worker, from 0, or of an external process.

  Returns:
    [B], from 0 for the environment that explores most to 1 for the least.
  """
  num_envs = topology.environments_per_worker
  if worker >= topology.workers:
    digits = f"{worker:b}"[::-1]  # the bits after the binary point
    return np.full(num_envs, int(digits, 2) / 2 ** len(digits))
  total = num_envs * topology.workers
  indices = worker + topology.workers * np.arange(num_envs)
  return indices / max(1, total - 1)


class EpsilonSchedule:
  """Schedule of the epsilons of one worker's B environments.

  The field `exploration.schedule` selects one of two schedules.
  'ladder': an environment at position x of `find_ladder_positions` has the
  constant epsilon base^(1 + x * exponent), Horgan et al. 2018, "Distributed
  prioritized experience replay", section 4.1.
  'linear': all epsilons fall linearly from epsilon_start to epsilon_end over
  decay_steps environment steps of all workers together. A worker estimates
  their sum as its own steps times the number of workers.
  """

  def __init__(
    self,
    exploration: ml_collections.ConfigDict,
    topology: ml_collections.ConfigDict,
    worker: int,
    earlier_env_steps: int = 0,
  ):
    """Starts the schedule after `earlier_env_steps` environment steps."""
    self._exploration = exploration.copy_and_resolve_references()
    self._num_envs = topology.environments_per_worker
    self._workers = max(1, topology.workers)
    # Counts one step per environment and call of `next`. Since that includes
    # autoresets, it slightly exceeds the number of environment steps.
    self.env_steps = earlier_env_steps
    positions = find_ladder_positions(topology, worker)
    powers = 1.0 + positions * self._exploration.ladder_exponent
    self._constants = self._exploration.ladder_base**powers  # of 'ladder'

  def next(self) -> np.ndarray:
    """Returns epsilons [B] for the next batch step, and counts that step."""
    steps = self.env_steps * self._workers
    self.env_steps += self._num_envs
    if self._exploration.schedule == "ladder":
      return self._constants
    done = min(1.0, steps / self._exploration.decay_steps)
    start = self._exploration.epsilon_start
    end = self._exploration.epsilon_end
    return np.full(self._num_envs, start + done * (end - start))
