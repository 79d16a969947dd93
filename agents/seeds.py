"""Seeds of a run's parts and processes, which share no random numbers."""

import random

import numpy as np

_MAX_WORKERS = 1 << 20  # workers of a run whose seeds differ from other runs'

# Added to a run's seed, far above the seeds of all workers.
_TABLE, _EVALUATION, _EVALUATING_ACTOR = 1 << 62, 2 << 62, 3 << 62


def for_table(seed: int) -> int:
  """Returns the seed of the table of a run in one process."""
  return seed + _TABLE


def for_evaluation(seed: int, restarts: int) -> int:
  """Returns the seed of the evaluation's environments."""
  return for_restart(seed + _EVALUATION, restarts)


def for_evaluating_actor(seed: int) -> int:
  """Returns the seed of the actor of evaluations."""
  return seed + _EVALUATING_ACTOR


def for_worker(seed: int, worker: int, restarts: int) -> int:
  """Returns the seed of a worker's process.

  Runs with neighbouring seeds have no worker's seed in common, so that they are
  independent samples.

  Args:
    seed: seed of the run, at least 0 and below 2^43.
  """
  return for_restart(seed * _MAX_WORKERS + worker, restarts)


def for_restart(seed: int, restarts: int) -> int:
  """Returns the seed for a node's process, which differs after each restart.

  With an unchanged seed, a restarted worker would repeat episodes that the
  table already contains.

  Args:
    seed: seed of the node, at least 0 and below 2^64.

  Returns:
    seed + restarts * 2^64, a number that no other node uses. NumPy's generators
    accept integers of any size.
  """
  return seed + (restarts << 64)


def seed_global_generators(seed: int) -> None:
  """Seeds the generators of the modules `random` and `numpy.random`.

  Environments of users may draw from them. All nodes of a machine are forked
  from one process, so they begin with equal states of NumPy's generator, and
  workers would play the same episodes.

  Args:
    seed: seed of the node, at least 0.
  """
  random.seed(seed)
  np.random.seed(np.random.SeedSequence(seed).generate_state(4))  # noqa: NPY002
