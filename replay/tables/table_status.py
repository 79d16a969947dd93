"""Table status: counts of a Reverb table or an in-process table."""

import typing
from collections.abc import Sequence

import msgspec

if typing.TYPE_CHECKING:
  import reverb  # not at run time: mode `single` has no Reverb


class TableStatus(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
  """Counts of items of one table, or summed over several tables.

  Attributes:
    size: items in the table now.
    inserted: items inserted since the table was made.
    sampled: items sampled since the table was made.
    samples_per_insert: measured ratio of samples to inserts since the table
      reached its minimum size; 0.0 before.
  """

  size: int = 0
  inserted: int = 0
  sampled: int = 0
  samples_per_insert: float = 0.0

  @classmethod
  def from_counts(
    cls, size: int, inserted: int, sampled: int, min_size: int
  ) -> "TableStatus":
    """Returns the status of one table from its counts.

    Args:
      min_size: items in the table before the first one is sampled; the first
        `min_size` inserts do not count in the ratio.
    """
    return cls.from_shards([cls(size, inserted, sampled)], min_size)

  @classmethod
  def from_shards(
    cls, tables: Sequence["TableStatus"], min_size: int
  ) -> "TableStatus":
    """Returns the status of several tables: sums, and the ratio of the sums.

    Args:
      tables: counts of each table; their ratios are not used.
    """
    sampled = sum(table.sampled for table in tables)
    since = sum(max(0, table.inserted - min_size) for table in tables)
    return cls(
      sum(table.size for table in tables),
      sum(table.inserted for table in tables),
      sampled,
      sampled / since if since else 0.0,
    )


def read(
  client: "reverb.Client", table: str, timeout_s: int = 5
) -> TableStatus:
  """Requests the status of a table from a Reverb server.

  Args:
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
