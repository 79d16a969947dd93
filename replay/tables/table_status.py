"""Table status: counts of a table in a server or in this process."""

import typing
from collections.abc import Sequence

if typing.TYPE_CHECKING:
  import reverb  # not at run time: mode `single` has no Reverb


class TableStatus(typing.NamedTuple):
  """Counts of one or several tables."""

  size: int  # items in the table
  inserted: int  # items so far
  sampled: int  # items so far
  samples_per_insert: float  # measured after the minimum size was reached

  @classmethod
  def from_counts(
    cls, size: int, inserted: int, sampled: int, min_size: int
  ) -> "TableStatus":
    """Returns the status of one table.

    No item is sampled before the table has its minimum size, so the ratio is
    that of the samples to the inserts since then.

    Args:
      size: items in the table.
      inserted: items so far.
      sampled: items so far.
      min_size: items in the table before the first is sampled.
    """
    return cls.from_shards([(size, inserted, sampled)], min_size)

  @classmethod
  def from_shards(
    cls, counts: Sequence[tuple[int, int, int]], min_size: int
  ) -> "TableStatus":
    """Returns the sums over several tables, and the ratio of the sums.

    Args:
      counts: size, inserted and sampled of each table.
      min_size: items in each table before the first is sampled.
    """
    size, inserted, sampled = (sum(each) for each in zip(*counts, strict=True))
    since = sum(max(0, inserts - min_size) for _, inserts, _ in counts)
    ratio = sampled / since if since else 0.0
    return cls(size, inserted, sampled, ratio)


def read(client: "reverb.Client", table: str) -> TableStatus:
  """Returns the status of a server's table.

  Args:
    client: client of the server.
    table: name of the table.

  Raises:
    KeyError: the server has no such table.
    RuntimeError: the server does not reply.
  """
  info = client.server_info(timeout=5)[table]
  limiter = info.rate_limiter_info
  return TableStatus.from_counts(
    size=info.current_size,
    inserted=limiter.insert_stats.completed,
    sampled=limiter.sample_stats.completed,
    min_size=limiter.min_size_to_sample,
  )
