"""Limiter: bounds of a table's rate limiter, and what they allow."""

import math
import sys
import typing

UNBOUNDED = sys.float_info.max  # a bound that no difference reaches


class Limiter(typing.NamedTuple):
  """Bounds that block inserts or samples by a table's counts, as in Reverb.

  Reverb computes the difference inserted * samples_per_insert - sampled. A
  sample blocks if the difference would fall below `min_diff`, or if the table
  has fewer than `min_size` items. An insert blocks if the difference would rise
  above `max_diff`, unless the table has fewer than `min_size` items.

  Attributes:
    samples_per_insert: samples that each insert grants.
    min_size: items in the table before the first is sampled.
    min_diff: lower bound of the difference, in samples.
    max_diff: upper bound of the difference, in samples.
  """

  samples_per_insert: float
  min_size: int
  min_diff: float
  max_diff: float

  @classmethod
  def from_min_size(cls, min_size: int) -> "Limiter":
    """Returns a limiter that blocks samples below `min_size` items."""
    return cls(1.0, min_size, -UNBOUNDED, UNBOUNDED)

  @classmethod
  def from_ratio(
    cls,
    samples_per_insert: float,
    min_size: int,
    batch_size: int,
    tolerance: float,
  ) -> "Limiter":
    """Returns a limiter that holds a ratio of samples to inserts.

    The bounds are those of Reverb's `SampleToInsertRatio`. They are at least
    the samples of two inserts apart, or both sides could block at once. They
    are also far enough apart for a whole batch at any number of inserts: a
    trainer that only gets parts of batches never learns.

    Args:
      samples_per_insert: above 0.
      min_size: items in the table before the first is sampled.
      batch_size: items per batch.
      tolerance: half of the distance of the bounds, as a fraction of the
        samples that `min_size` inserts grant.
    """
    ratio = samples_per_insert
    error_buffer = max(
      tolerance * min_size * ratio,
      2.0 * max(1.0, ratio),
      # One insert may not fit below the upper bound; 1 is for rounding.
      (batch_size + ratio + 1.0) / 2.0,
    )
    return cls(
      ratio,
      min_size,
      ratio * min_size - error_buffer,
      ratio * min_size + error_buffer,
    )

  @classmethod
  def from_queue(cls, capacity: float) -> "Limiter":
    """Returns the limiter of a queue of at most `capacity` items."""
    return cls(1.0, 1, 0.0, capacity)

  @property
  def bounded(self) -> bool:
    """Whether inserts can block, as they do to hold a ratio."""
    return self.max_diff < UNBOUNDED

  def difference(self, inserted: int, sampled: int) -> float:
    """Returns the difference that the limiter bounds, in samples."""
    return inserted * self.samples_per_insert - sampled

  def samples_allowed(self, size: int, inserted: int, sampled: int) -> int:
    """Returns how many items may be sampled without another insert.

    Args:
      size: items in the table.
      inserted: items, since the table was made.
      sampled: items, since the table was made.

    Returns:
      A number; `sys.maxsize`: no limit.
    """
    if size < self.min_size:
      return 0
    if self.min_diff == -UNBOUNDED:
      return sys.maxsize
    now = self.difference(inserted, sampled)
    allowed = max(0, math.floor(now - self.min_diff))
    # That subtraction rounds; Reverb subtracts the samples from the inserts.
    if now - (allowed + 1) >= self.min_diff:
      return allowed + 1
    return allowed - (allowed > 0 and now - allowed < self.min_diff)

  def inserts_missing(self, size: int, inserted: int, sampled: int) -> int:
    """Returns the inserts that are needed before one more sample.

    Args:
      size: items in the table.
      inserted: items, since the table was made.
      sampled: items, since the table was made.

    Returns:
      A number; 0: a sample is allowed now.
    """
    after = self.difference(inserted, sampled) - 1
    missing = (self.min_diff - after) / self.samples_per_insert
    return max(0, self.min_size - size, math.ceil(missing))

  def samples_missing(self, size: int, inserted: int, sampled: int) -> int:
    """Returns the samples that are needed before one more insert."""
    if size + 1 <= self.min_size:
      return 0
    after = self.difference(inserted + 1, sampled)
    return max(0, math.ceil(after - self.max_diff))
