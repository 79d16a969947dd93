"""Table status: counts of a Reverb table or an in-process table."""

import typing
from collections.abc import Sequence

if typing.TYPE_CHECKING:
  import reverb  # not at run time: mode `single` has no Reverb


class TableStatus(typing.NamedTuple):
  """Counts of items of one table, or summed over several tables.

  Attributes:
    size: items in the table now.
    inserted: items inserted so far.
    sampled: items sampled so far.
    samples_per_insert: measured ratio of samples to inserts since the table
      reached its minimum size; 0.0 before.
  """

  size: int
  inserted: int
  sampled: int
  samples_per_insert: float

  @classmethod
  def from_counts(
    cls, size: int, inserted: int, sampled: int, min_size: int
  ) -> "TableStatus":
    """Returns the status of one table from its counts.

    Args:
      size: items in the table now.
      inserted: items inserted so far.
      sampled: items sampled so far.
      min_size: items in the table before the first one is sampled; the first
        `min_size` inserts do not count in the ratio.
    """
    return cls.from_shards([(size, inserted, sampled)], min_size)

  @classmethod
  def from_shards(
    cls, counts: Sequence[tuple[int, int, int]], min_size: int
  ) -> "TableStatus":
    """Returns the status of several tables: sums, and the ratio of the sums.

    Args:
      counts: tuple (size, inserted, sampled) of each table.
      min_size: items in each table before the first one is sampled.
    """
    size, inserted, sampled = (sum(each) for each in zip(*counts, strict=True))
    since = sum(max(0, inserts - min_size) for _, inserts, _ in counts)
    ratio = sampled / since if since else 0.0
    return cls(size, inserted, sampled, ratio)


def read(
  client: "reverb.Client", table: str, timeout_s: int = 5
) -> TableStatus:
  """Requests the status of a table from a Reverb server.

  Args:
    client: client of the server.
    table: name of the table.
    timeout_s: seconds to wait for the reply, at least 1.

  Raises:
    KeyError: the server has no such table.
    RuntimeError: the server is down.
    reverb.errors.ReverbError: the server does not reply.
  """
  info = client.server_info(timeout=timeout_s)[table]
  limiter = info.rate_limiter_info
  return TableStatus.from_counts(
    size=info.current_size,
    inserted=limiter.insert_stats.completed,
    sampled=limiter.sample_stats.completed,
    min_size=limiter.min_size_to_sample,
  )
