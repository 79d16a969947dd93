"""What a table of transitions says of itself, wherever it is held."""

import typing


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
    since = inserted - min_size
    ratio = sampled / since if since > 0 else 0.0
    return cls(size, inserted, sampled, ratio)
