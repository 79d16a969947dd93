"""Rates: how far each side of a run may be ahead of the other.

The only module that knows what a mode means for samples, rounds, updates and
publications. Modes differ in nothing else than their schedule:

- async: every node runs freely, between the bounds of the table's limiter.
- sync: in rounds. Workers collect with one version of the variables, the
  trainer learns from that, and publishes the next version.
- single: one process alternates by the table's counts.
"""

from collections.abc import Sequence

import ml_collections
from acme import specs

from slipway.agents import registry
from slipway.replay.tables import limiter as limiter_lib
from slipway.replay.tables import table_spec, table_status

MODES = ("async", "sync", "single")


class Rates:
  """The rates of one run.

  Attributes:
    table: of the run; None: its data was recorded before.
    in_rounds: whether workers and trainer take turns.
    in_one_process: whether worker, trainer and evaluator share a process.
  """

  def __init__(
    self,
    config: ml_collections.ConfigDict,
    table: table_spec.TableSpec | None,
  ):
    """Reads a config.

    Args:
      config: the whole config, validated.
      table: of its algorithm.
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
    """Returns the rates of a config's algorithm.

    Args:
      config: the whole config, validated.
      spec: of one environment.
    """
    builder = registry.make_builder(config.agent)
    return cls(config, builder.make_table(config, spec))

  @property
  def limiter(self) -> limiter_lib.Limiter | None:
    """The limiter of each server's table; None: there is no table."""
    if self.table is None:
      return None
    return self.table.round_limiter if self.in_rounds else self.table.limiter

  @property
  def samples_per_insert(self) -> float:
    """The target ratio; 0: there is none."""
    return self.table.samples_per_insert if self.table is not None else 0.0

  @property
  def updates_per_call(self) -> int:
    """Updates in one call of TensorFlow: one where each may be the last."""
    return 1 if self.in_one_process else self._steps_per_call

  @property
  def publish_period(self) -> int:
    """Trainer steps between two publications of the variables."""
    return self._round_updates if self.in_rounds else self._publish_period

  @property
  def report_period_s(self) -> float:
    """Seconds between two reports of a node that waits for no round."""
    return 0.25

  @property
  def poll_period_s(self) -> float:
    """Seconds between two polls of a proxy for new variables."""
    if self.in_rounds:
      return 0.002
    # The age of a queue's batches is bounded, in versions of an update each.
    return 0.005 if self._is_queue else 0.05

  @property
  def idle_s(self) -> float:
    """Seconds until a worker that has to wait checks again."""
    return 0.001 if self.in_rounds else 0.005

  @property
  def trainer_idle_s(self) -> float:
    """Seconds until a trainer without a batch checks again."""
    # A queue's batches come as fast as workers collect them, one by one.
    return 0.002 if self._is_queue else 0.02

  def worker_steps(self, workers: int) -> int | None:
    """Returns the batch steps of each worker in a round.

    Args:
      workers: how many there are.

    Returns:
      None: there are no rounds, so any number.
    """
    table = self.table
    if not self.in_rounds or table is None:
      return None
    at_once = workers * self._environments
    if table.round_steps is not None:
      return max(1, -(-table.round_steps // at_once))
    items_missing = table.batch_size * table.shards
    return -(-items_missing // at_once) * table.steps_per_item

  def updates_of_round(
    self, statuses: Sequence[table_status.TableStatus]
  ) -> int:
    """Returns the trainer steps that a round's data grants.

    Args:
      statuses: of the tables that are up, when all workers have collected.

    Returns:
      0: there is too little for one, so that workers collect once more.
    """
    table = self.table
    if table is None or not statuses:
      return 0
    if table.consumed:
      return sum(status.size // table.batch_size for status in statuses)
    filled = all(status.size >= table.min_size for status in statuses)
    return self._round_updates if filled else 0

  def is_update_due(self, status: table_status.TableStatus) -> bool:
    """Whether the counts of a table in one process grant one more update."""
    before_first, ratio = self.grants
    granted = (status.inserted - before_first) * ratio
    return granted - status.sampled > 0

  @property
  def grants(self) -> tuple[int, float]:
    """In one process: items before the first update, samples per item then."""
    table = self.table
    if table is None:
      return 0, 0.0
    if table.consumed:
      return table.batch_size - 1, 1.0
    return table.min_size, table.samples_per_insert or table.batch_size

  @property
  def _is_queue(self) -> bool:
    return self.table is not None and self.table.consumed

  @property
  def _round_updates(self) -> int:
    table = self.table
    if table is None or table.consumed or table.round_steps is None:
      return 1
    inserts = table.round_steps / table.steps_per_item
    samples = inserts * table.samples_per_insert
    return max(1, round(samples / table.batch_size))


class Publications:
  """Decides after which updates a trainer publishes.

  Attributes:
    updates_left: of the round; 0: the workers collect. Of no use without
      rounds.
  """

  def __init__(self, rates: Rates):
    """Starts while the workers collect."""
    self._rates = rates
    self.updates_left = 0

  def begin_round(self, updates: int) -> None:
    """Grants updates: the workers have collected."""
    self.updates_left = updates

  def is_due(self, before: int, steps: int) -> bool:
    """Whether to publish now.

    Args:
      before: trainer steps before the last call.
      steps: trainer steps now.
    """
    if not self._rates.in_rounds:
      period = self._rates.publish_period
      return steps // period > before // period
    self.updates_left -= steps - before
    return self.updates_left <= 0 and steps > before
