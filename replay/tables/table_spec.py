"""Spec of a run's replay table: item schema, sizes, sampling and limits."""

import dataclasses
import typing

import ml_collections

from slipway.configs import rules
from slipway.replay.tables import limiter as limiter_lib

# Maximum bound of a limiter, in samples. Reverb's limiter counts in doubles,
# whose integers are exact up to this number.
_MAX_COUNT = 2.0**53


class ItemSchema(typing.Protocol):
  """Interface of the item schemas: describes the bytes of a table's items.

  Attributes:
    item_shape: shape of an item, whose dtype is uint8.
    transitions_per_item: number of transitions in an item, which share a key.
  """

  item_shape: tuple[int, ...]
  transitions_per_item: int

  def kept_frame_records(self, num_envs: int) -> int:
    """Returns how many sent frame records a writer keeps for later items."""
    ...


@dataclasses.dataclass(frozen=True)
class TableSpec:
  """Settings of the replay table of an algorithm.

  The Reverb table, the in-process table, the dataset and the schedule of
  updates are made from this spec. The watchdog and the panel also read it.

  Attributes:
    schema: schema of an item.
    capacity: maximum number of items in each server's table.
    batch_size: items of the table per batch.
    steps_per_item: environment steps per new item, but for relabelled ones.
    min_size: items in each server's table before the first one is sampled.
    samples_per_insert: number of samples that each insert grants; 0: no limit.
    tolerance: allowed deviation of samples from samples_per_insert, as a
      fraction of the samples that `min_size` inserts grant.
    priority_exponent: alpha, to which priorities are raised; None: items are
      sampled uniformly and have no priorities.
    is_queue: whether the table is a queue, from which each item is sampled
      once, the oldest first.
    shards: number of servers that share the items.
    round_steps: environment steps of all workers in a round of mode 'sync';
      None: as many as give one batch.
    relabelled: relabelled items for each other one (hindsight).
    recorded: recorded items per batch, in addition to those of the table.
  """

  schema: ItemSchema
  capacity: int
  batch_size: int
  steps_per_item: int
  min_size: int = 1
  samples_per_insert: float = 0.0
  tolerance: float = 0.5
  priority_exponent: float | None = None
  is_queue: bool = False
  shards: int = 1
  round_steps: int | None = None
  relabelled: int = 0
  recorded: int = 0

  @classmethod
  def from_replay_config(
    cls,
    config: ml_collections.ConfigDict,
    schema: ItemSchema,
    steps_per_item: int,
  ) -> "TableSpec":
    """Returns the spec of a table that is sampled with replacement.

    Args:
      config: the whole config, with the fields of `groups.REPLAY`, whose sizes
        are in transitions; the sizes of the spec are in items.
      steps_per_item: environment steps per new item.

    Raises:
      ValueError: no batch could ever be sampled.
    """
    replay = config.replay
    prioritized = replay.sampler == "prioritized"
    batch_size = config.learner.batch_size // schema.transitions_per_item
    ratio = config.get("dataset", {}).get("ratio", 0.0)
    recorded = round(ratio * batch_size)
    table = cls(
      schema=schema,
      capacity=-(-(replay.capacity // steps_per_item) // replay.shards),
      batch_size=batch_size - recorded,
      steps_per_item=steps_per_item,
      min_size=-(-replay.min_size // (steps_per_item * replay.shards)),
      samples_per_insert=replay.samples_per_insert,
      tolerance=replay.tolerance,
      priority_exponent=replay.priority_exponent if prioritized else None,
      shards=replay.shards,
      round_steps=config.sync.environment_steps,
      relabelled=rules.count_relabelled(config),
      recorded=recorded,
    )
    _check_sizes(config, table)
    return table

  @classmethod
  def from_queue_config(
    cls,
    config: ml_collections.ConfigDict,
    schema: ItemSchema,
    steps_per_item: int,
  ) -> "TableSpec":
    """Returns the spec of a queue, from which each item is sampled once.

    Args:
      steps_per_item: environment steps per new item.
    """
    return cls(
      schema=schema,
      capacity=_queue_capacity(config),
      batch_size=config.learner.batch_size,
      steps_per_item=steps_per_item,
      samples_per_insert=1.0,
      is_queue=True,
      shards=config.replay.shards,
    )

  @property
  def prioritized(self) -> bool:
    """Whether items are sampled in proportion to priority^alpha."""
    return self.priority_exponent is not None

  @property
  def limiter(self) -> limiter_lib.Limiter:
    """Limiter of each server's table in all modes except 'sync'."""
    if self.is_queue:
      return limiter_lib.Limiter.from_queue(self.capacity)
    if not self.samples_per_insert:
      return limiter_lib.Limiter.from_min_size(self.min_size)
    return limiter_lib.Limiter.from_ratio(
      self.samples_per_insert, self.min_size, self.batch_size, self.tolerance
    )

  @property
  def round_limiter(self) -> limiter_lib.Limiter:
    """Limiter of each server's table in mode 'sync'.

    It never blocks inserts, because the rounds limit collection and updates. A
    checkpoint of the table has its ratio, so that a resume sees a change.
    """
    if self.is_queue:
      return limiter_lib.Limiter.from_queue(limiter_lib.UNBOUNDED)
    return limiter_lib.Limiter.from_min_size(
      self.min_size, self.samples_per_insert
    )


def _queue_capacity(config: ml_collections.ConfigDict) -> int:
  # A policy age is the number of batches between a rollout's first step and its
  # update: of the queue, of one unfinished rollout per environment, and of the
  # trainer itself. With this capacity it is at most `max_age`, if there is
  # place for a batch at all.
  batch_size = config.learner.batch_size
  in_progress = rules.count_unfinished_rollouts(config)
  capacity = batch_size * (config.variables.max_age - 1) - in_progress
  return max(capacity, batch_size)


def _check_sizes(config: ml_collections.ConfigDict, table: TableSpec) -> None:
  """Checks that the sizes of a replay table let batches be sampled."""
  replay, batch_size = config.replay, config.learner.batch_size
  together = table.schema.transitions_per_item
  if batch_size % together:
    raise ValueError(
      f"config.learner.batch_size={batch_size} is no multiple of "
      f"config.replay.transitions_per_item={together}, so a batch would not "
      "have whole items: change one of them"
    )
  ratio = config.get("dataset", {}).get("ratio", 0.0)
  if ratio and not (table.batch_size and table.recorded):
    raise ValueError(
      f"config.dataset.ratio={ratio!r} of config.learner.batch_size="
      f"{batch_size} is {table.recorded} recorded items and {table.batch_size} "
      f"new ones, of {together} transitions: use a ratio that leaves both, or "
      "a larger batch"
    )
  if table.capacity < table.batch_size:
    shards = f" in {replay.shards} shards" if replay.shards > 1 else ""
    raise ValueError(
      f"config.replay.capacity={replay.capacity}{shards} is below "
      f"config.learner.batch_size={batch_size}: no batch of different items "
      "could ever be sampled; raise the capacity or lower the batch size"
    )
  if table.min_size > table.capacity:
    raise ValueError(
      f"config.replay.min_size={replay.min_size} is above "
      f"config.replay.capacity={replay.capacity}: the table could never have "
      "enough items, and the trainer would wait for ever; lower min_size"
    )
  limiter = table.limiter
  if table.samples_per_insert and not limiter.max_diff < _MAX_COUNT:
    raise ValueError(
      f"config.replay.samples_per_insert={replay.samples_per_insert!r} with "
      f"min_size={replay.min_size} and tolerance={replay.tolerance!r} bounds "
      f"the limiter at {limiter.max_diff:.3g} samples, beyond what it counts, "
      "so it would block for ever; lower them"
    )
