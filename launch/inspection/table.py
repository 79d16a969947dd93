"""Table inspection: what a run's replay table held when it was saved."""

from collections.abc import Sequence

import ml_collections
import msgspec
import numpy as np

from slipway.launch.inspection import histogram
from slipway.replay.items import item_reader, transitions
from slipway.replay.tables import saved_table

_GROUPS = 10  # groups of items by age


class AgeGroup(msgspec.Struct, kw_only=True):
  """A tenth of the table's items.

  Attributes:
    mean_priority: mean priority of the items.
    sampling_share: probability that a sample is one of them.
    mean_version: mean version of the variables that chose their actions, of the
      decoded items.
    mean_times_sampled: mean number of samples of each so far.
    mean_age_s: mean of the seconds since each was inserted.
  """

  mean_priority: float
  sampling_share: float
  mean_version: float | None = None
  mean_times_sampled: float | None = None
  mean_age_s: float | None = None


class Evicted(msgspec.Struct, kw_only=True):
  """The items that have left the table.

  Attributes:
    count: number of items.
    mean_times_sampled: mean number of samples of each.
    never_sampled: fraction that left without a sample.
  """

  count: int
  mean_times_sampled: float | None = None
  never_sampled: float | None = None


class FieldSummary(msgspec.Struct, kw_only=True):
  """The values of a field in the decoded items.

  Attributes:
    shape: shape of the field in one item.
    distinct: number of different values.
  """

  shape: list[int]
  minimum: float
  mean: float
  maximum: float
  distinct: int


class TableInspection(msgspec.Struct, kw_only=True):
  """What a table held. A value that the table does not store is None.

  Attributes:
    kind: what an item is: 'transition' or 'sequence'.
    size: number of items in all shards, N.
    capacity: maximum number of items.
    shards: number of servers that share the items.
    inserted: items inserted so far.
    sampled: items sampled so far.
    evicted: the items that have left the table.
    priority_exponent: alpha of prioritized sampling; None: it is uniform.
    priorities: histogram of the priorities; None: sampling is uniform.
    versions: histogram of the versions of the variables that chose the actions,
      of the decoded items.
    times_sampled: histogram of the samples of each item so far.
    ages_s: histogram of the seconds since each item was inserted.
    tenths_newest_first: tenths of the items, the newest first.
    stream_shares: fraction of the items of each stream, the largest first. A
      worker writes by one stream, and by a new one after it breaks.
    effective_items: 1 / sum_i P(i)^2, with the probability P(i) of sampling
      item i: as many items, sampled uniformly, would repeat as often.
    importance_exponent: beta of the importance weights w at the snapshot.
    effective_batch: effective sample size of a batch's importance weights, as a
      fraction of the batch: (sum_i P(i) w_i)^2 / sum_i P(i) w_i^2.
    decoded: number of transitions or sequences that have been decoded, at
      random: all in a table of small items.
    repeated: how many of them equal another one in all but the version.
    fields: their fields, by name.
  """

  kind: str
  size: int
  capacity: int
  shards: int
  inserted: int
  sampled: int
  evicted: Evicted = msgspec.field(default_factory=lambda: Evicted(count=0))
  priority_exponent: float | None = None
  priorities: histogram.Histogram | None = None
  versions: histogram.Histogram | None = None
  times_sampled: histogram.Histogram | None = None
  ages_s: histogram.Histogram | None = None
  tenths_newest_first: list[AgeGroup] = []
  stream_shares: list[float] | None = None
  effective_items: float = 0.0
  importance_exponent: float | None = None
  effective_batch: float = 1.0
  decoded: int = 0
  repeated: int = 0
  fields: dict[str, FieldSummary] = {}


def inspect(
  tables: Sequence[saved_table.SavedTable],
  reader: item_reader.ItemReader,
  replay: ml_collections.ConfigDict,
  trainer_steps: int,
  now_s: float,
) -> TableInspection:
  """Returns the statistics of a table's shards.

  Args:
    tables: the table of each shard.
    replay: the config's section `replay`.
    trainer_steps: updates of the learner until the snapshot.
    now_s: unix seconds of the snapshot.
  """
  exponent = tables[0].priority_exponent
  # Batches come from all shards in turn.
  probabilities = np.concatenate(
    [x.probabilities / len(tables) for x in tables]
  )
  samples = _join(tables, "times_sampled")
  found = TableInspection(
    kind=reader.kind,
    size=len(probabilities),
    capacity=sum(table.capacity for table in tables),
    shards=len(tables),
    inserted=sum(table.inserted for table in tables),
    sampled=sum(table.sampled for table in tables),
    priority_exponent=exponent,
  )
  found.evicted = _describe_evicted(found, tables, samples)
  if not found.size:
    return found
  priorities, inserted_at_s = (
    _join(tables, "priorities"),
    _join(tables, "inserted_at_s"),
  )
  ages_s = None
  if inserted_at_s is not None:
    ages_s = np.maximum(now_s - inserted_at_s, 0.0)
    found.ages_s = histogram.make(ages_s)
  if samples is not None:
    found.times_sampled = histogram.make(samples)
  if (streams := _join(tables, "streams")) is not None:
    _, counts = np.unique(streams, return_counts=True)
    found.stream_shares = (np.sort(counts)[::-1] / found.size).tolist()
  found.effective_items = 1 / float(np.sum(probabilities**2))
  if priorities is not None and exponent is not None:
    found.priorities = histogram.make(priorities)
    start, end = (
      replay.importance_exponent_start,
      replay.importance_exponent_end,
    )
    # As `batch_weights` computes it.
    done = min(1.0, trainer_steps / replay.importance_steps)
    found.importance_exponent = beta = start + (end - start) * done
    found.effective_batch = _compute_effective_batch(probabilities, beta)
  versions = _describe_fields(found, tables, reader)
  columns = {
    "mean_priority": priorities,
    "mean_version": versions,
    "mean_times_sampled": samples,
    "mean_age_s": ages_s,
  }
  rank = [
    np.arange(len(x.priorities))[::-1] / len(x.priorities) for x in tables
  ]
  order = np.argsort(np.concatenate(rank), kind="stable")
  found.tenths_newest_first = [
    AgeGroup(
      sampling_share=float(probabilities[group].sum()),
      **{
        name: float(np.nanmean(values[group]))
        for name, values in columns.items()
        if values is not None and not np.isnan(values[group]).all()
      },
    )
    for group in np.array_split(order, min(_GROUPS, found.size))
  ]
  return found


def _join(
  tables: Sequence[saved_table.SavedTable], name: str
) -> np.ndarray | None:
  """Returns an array of all shards' items; None: tables do not store it."""
  arrays = [getattr(table, name) for table in tables]
  return None if arrays[0] is None else np.concatenate(arrays)


def _describe_evicted(
  found: TableInspection,
  tables: Sequence[saved_table.SavedTable],
  samples: np.ndarray | None,
) -> Evicted:
  """Returns how often items were sampled before they left."""
  evicted = Evicted(count=found.inserted - found.size)
  if samples is None or not evicted.count:
    return evicted
  # A resume may change a table's count of samples, which is then no basis.
  rest = found.sampled - int(samples.sum())
  if rest >= 0:
    evicted.mean_times_sampled = rest / evicted.count
  unique = sum(table.unique_sampled or 0 for table in tables)
  left = unique - int((samples > 0).sum())
  if 0 <= left <= evicted.count:
    evicted.never_sampled = 1 - left / evicted.count
  return evicted


def _compute_effective_batch(
  probabilities: np.ndarray, exponent: float
) -> float:
  """Returns the effective sample size of importance weights, in [0, 1]."""
  sampled = probabilities[probabilities > 0]
  weights = sampled**-exponent  # up to a factor
  mean = np.sum(sampled * weights)
  return float(mean**2 / np.sum(sampled * weights**2))


def _describe_fields(
  found: TableInspection,
  tables: Sequence[saved_table.SavedTable],
  reader: item_reader.ItemReader,
) -> np.ndarray | None:
  """Sets the results that need the content of items.

  Returns:
    The version of each item, [N], nan where it is not decoded; None: items have
    no versions.
  """
  records = np.concatenate([table.last for table in tables])
  fields = reader.read_records(records)
  contents = records[:, reader.content_mask]
  found.decoded = len(records)
  found.repeated = len(records) - len({row.tobytes() for row in contents})
  versions = fields.pop(transitions.VERSION, None)
  found.fields = {
    name: FieldSummary(
      shape=list(values.shape[1:]),
      minimum=float(values.min()),
      mean=float(values.mean(dtype=np.float64)),
      maximum=float(values.max()),
      distinct=len(np.unique(values)),
    )
    for name, values in fields.items()
    if values.size
  }
  if versions is None:
    return None
  found.versions = histogram.make(versions)
  of_items = [np.full(len(table.priorities), np.nan) for table in tables]
  start = 0
  for table, of_item in zip(tables, of_items, strict=True):
    rows = versions[start : (start := start + len(table.last))]
    indices = table.chosen.last
    of_item[indices] = rows.reshape(len(indices), -1).mean(axis=1)
  return np.concatenate(of_items)
