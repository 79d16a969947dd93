"""Rounds of the mode 'sync': workers collect, the trainer learns, in turns."""

import ml_collections

from configs import sizes


def worker_steps(config: ml_collections.ConfigDict, workers: int) -> int:
  """Batch steps that each worker makes with one version of the variables.

  Args:
    config: the whole config.
    workers: how many there are.
  """
  at_once = workers * config.topology.environments_per_worker
  return max(1, -(-config.sync.environment_steps // at_once))


def updates(config: ml_collections.ConfigDict) -> int:
  """Trainer steps of a round: as many as samples_per_insert asks for."""
  items = sizes.Sizes.of(config)
  inserts = config.sync.environment_steps / items.steps_per_item
  samples = inserts * config.replay.samples_per_insert
  return max(1, round(samples / items.batch_size))


def publish_period(config: ml_collections.ConfigDict) -> int:
  """Trainer steps between two publications of the variables."""
  if config.mode == "sync":
    return updates(config)
  return config.variables.publish_period


def report_period_s(config: ml_collections.ConfigDict) -> float:
  """Seconds between two reports of a node: rounds are passed on by them."""
  return 0.02 if config.mode == "sync" else 0.25


def poll_period_s(config: ml_collections.ConfigDict) -> float:
  """Seconds between two questions of a proxy for new variables."""
  return 0.01 if config.mode == "sync" else 0.05


class Rounds:
  """How far a trainer is with its part of a round.

  Attributes:
    updates_left: trainer steps to do; 0: it is the workers' turn.
  """

  def __init__(self, config: ml_collections.ConfigDict):
    """Begins with the workers' turn.

    Args:
      config: the whole config.
    """
    self._updates = updates(config)
    self.updates_left = 0

  def begin(self) -> None:
    """The workers have collected their share: it is the trainer's turn."""
    self.updates_left = self._updates

  def ends_after(self, done: int) -> bool:
    """Takes that some updates were done; returns whether the turn ends."""
    self.updates_left -= done
    return self.updates_left == 0 and done > 0
