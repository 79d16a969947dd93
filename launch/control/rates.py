"""Rates: when workers collect and the trainer updates, in each mode.

Modes differ only in this schedule, and only this module defines it:

- async: all nodes run freely within the bounds of the table's limiter.
- sync: nodes run in rounds. The workers collect with one version of the
  variables, then the trainer learns from the new data and publishes the next
  version.
- single: one process alternates between environment steps and updates, as the
  table's counts require.
"""

import math
from collections.abc import Sequence

import ml_collections
from acme import specs

from slipway.agents import core, registry
from slipway.replay.tables import limiter as limiter_lib
from slipway.replay.tables import table_spec, table_status


class Rates:
  """The schedule of one run: limiter, rounds, and the periods of all nodes.

  Attributes:
    table: specification of the table, or None if the run learns from recorded
      data.
    in_rounds: whether workers and trainer alternate in rounds (mode sync).
    in_one_process: whether worker, trainer and evaluator share a process (mode
      single).
  """

  def __init__(
    self,
    config: ml_collections.ConfigDict,
    table: table_spec.TableSpec | None,
  ):
    """Makes the schedule from a config and the specification of a table.

    Args:
      table: specification of the algorithm's table, or None if it has none.
    """
    self.table = table
    self.in_rounds = config.mode == "sync" and table is not None
    self.in_one_process = config.mode == "single"
    self._environments = config.topology.environments_per_worker
    self._publish_period = config.variables.publish_period
    self._steps_per_call = config.learner.steps_per_call

  @classmethod
  def from_config(
    cls, config: ml_collections.ConfigDict, spec: specs.EnvironmentSpec
  ) -> "Rates":
    """Returns the schedule of a config and the table of its algorithm."""
    builder = registry.make_builder(config.agent)
    return cls(config, core.make_collected_table(builder, config, spec))

  @property
  def limiter(self) -> limiter_lib.Limiter | None:
    """Rate limiter of each server's table, or None if there is no table."""
    if self.table is None:
      return None
    return self.table.round_limiter if self.in_rounds else self.table.limiter

  @property
  def updates_per_call(self) -> int:
    """Number of updates that one call of the learner's tf.function runs."""
    return 1 if self.in_one_process else self._steps_per_call

  @property
  def publish_period(self) -> int:
    """Number of trainer steps between two publications of the variables.

    In rounds, each round has one publication. The number is then that of a
    round of exactly `TableSpec.round_steps`; for a queue, of one batch.
    """
    if not self.in_rounds:
      return self._publish_period
    table = self.table
    if table is None or table.is_queue or table.round_steps is None:
      return 1
    inserts = table.round_steps / table.steps_per_item * (1 + table.relabelled)
    samples = inserts * table.samples_per_insert
    return max(1, round(samples / table.batch_size))

  @property
  def poll_period_s(self) -> float:
    """Shortest time in seconds between two polls for new variables.

    Proxies of other machines poll, and workers without a proxy; see
    `replay/variables/poll_schedule.py`.
    """
    if self.in_rounds:
      return 0.002
    # A queue bounds the age of its batches in versions, and each update
    # publishes one. So workers must load new versions soon.
    return 0.005 if self._is_queue else 0.05

  @property
  def idle_s(self) -> float:
    """Seconds that a blocked worker sleeps before it checks again."""
    return 0.001 if self.in_rounds else 0.005

  @property
  def trainer_idle_s(self) -> float:
    """Seconds that a trainer without a batch sleeps before it checks again."""
    # Each batch of a queue is consumed once, so the trainer often waits shortly
    # until the workers have collected the next one.
    return 0.002 if self._is_queue else 0.02

  def worker_steps(self, workers: int) -> int | None:
    """Returns the number of batch steps that each worker takes in a round.

    The workers share `TableSpec.round_steps` equally, rounded up. If it is
    None, they share the steps that fill one batch of items in each shard.

    Returns:
      The number of steps of all environments of a worker, or None if the run
      has no rounds.
    """
    table = self.table
    if not self.in_rounds or table is None:
      return None
    environments = workers * self._environments
    if table.round_steps is not None:
      return max(1, -(-table.round_steps // environments))
    items_needed = table.batch_size * table.shards
    return -(-items_needed // environments) * table.steps_per_item

  def rounds_are_whole(self, workers: int) -> bool:
    """Returns whether the items of a round of a queue are whole batches.

    What a round leaves in the queue then follows from an interruption, such as
    the death of a node.

    Args:
      workers: number of workers; 0 if it is unknown.
    """
    table = self.table
    if table is None or not table.is_queue or not workers:
      return False
    steps = self.worker_steps(workers)
    if steps is None:
      return False
    items = workers * self._environments * steps // table.steps_per_item
    return items % (table.batch_size * table.shards) == 0

  def updates_of_round(
    self, statuses: Sequence[table_status.TableStatus]
  ) -> int:
    """Returns the number of trainer steps in the trainer's phase of a round.

    A replay grants the updates that are still due for all inserts so far, so
    the ratio of samples to inserts holds over the run, however many items each
    round has. A queue grants its whole batches.

    Args:
      statuses: status of each reachable shard's table, after all workers have
        collected.

    Returns:
      The number of steps, or 0 if no update is due yet and the workers have to
      collect again.
    """
    table = self.table
    if table is None or not statuses:
      return 0
    if table.is_queue:
      return sum(status.size // table.batch_size for status in statuses)
    # Shards are sampled equally often, and may get different numbers of items.
    # So only the counts of all of them together show what is due.
    if len(statuses) < table.shards or any(
      status.size < table.min_size for status in statuses
    ):
      return 0
    samples = sum(self._samples_due(status) for status in statuses)
    return max(0, math.floor(samples / table.batch_size))

  def is_update_due(self, status: table_status.TableStatus) -> bool:
    """Returns whether an update is due before the next environment step.

    Only mode `single` uses it.
    """
    return self._samples_due(status) > 0

  @property
  def scheduled_ratio(self) -> tuple[int, float]:
    """Ratio of samples to inserts of `single` and `sync`, as two numbers.

    In these modes the schedule holds the ratio, and no limiter enforces it.

    The first number is the count of inserts before the first update. The second
    number is the count of samples that each further insert allows.
    """
    table = self.table
    if table is None:
      return 0, 0.0
    if table.is_queue:
      return table.batch_size - 1, 1.0
    return table.min_size, table.samples_per_insert or table.batch_size

  def _samples_due(self, status: table_status.TableStatus) -> float:
    """Returns the number of granted samples that were not taken yet."""
    granted = limiter_lib.count_granted(status.inserted, *self.scheduled_ratio)
    return granted - status.sampled

  @property
  def _is_queue(self) -> bool:
    """Whether the table is a queue, whose items are sampled once."""
    return self.table is not None and self.table.is_queue
