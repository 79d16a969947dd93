"""What a table of transitions says of itself, wherever it is held."""

import typing
from collections.abc import Sequence

if typing.TYPE_CHECKING:
  import reverb  # `single` has a table without it


class TableStatus(typing.NamedTuple):
  """Counts of a table."""

  size: int  # items
  inserted: int  # items since the start
  sampled: int  # items since the start
  samples_per_insert: float  # measured after the minimum size was reached

  @classmethod
  def of(
    cls, size: int, inserted: int, sampled: int, min_size: int
  ) -> "TableStatus":
    """Measures the ratio from the counts.

    Nothing is sampled before the table has its minimum size, so the ratio is
    of the samples to the inserts since then.
    """
    return cls.of_shards([(size, inserted, sampled)], min_size)

  @classmethod
  def of_shards(
    cls, counts: Sequence[tuple[int, int, int]], min_size: int
  ) -> "TableStatus":
    """Those of several tables, and the ratio over all of them.

    Args:
      counts: size, inserted and sampled of each.
      min_size: items of each before its first sample.
    """
    size, inserted, sampled = (sum(each) for each in zip(*counts, strict=True))
    since = sum(max(0, inserts - min_size) for _, inserts, _ in counts)
    ratio = sampled / since if since else 0.0
    return cls(size, inserted, sampled, ratio)


def read(client: "reverb.Client", table: str) -> TableStatus:
  """Counts of a table of a server.

  Args:
    client: of the server.
    table: its name.

  Raises:
    KeyError: the server has no such table.
    RuntimeError: the server does not answer.
  """
  info = client.server_info(timeout=5)[table]
  limiter = info.rate_limiter_info
  return TableStatus.of(
    size=info.current_size,
    inserted=limiter.insert_stats.completed,
    sampled=limiter.sample_stats.completed,
    min_size=limiter.min_size_to_sample,
  )
