"""Limiter: a table's rate limiter, and what follows from its bounds."""

import math
import sys
import typing

UNBOUNDED = sys.float_info.max  # a bound that no difference reaches


class Limiter(typing.NamedTuple):
  """Decides by a table's counts which side blocks, as Reverb's limiters do.

  Reverb counts the difference inserted * samples_per_insert - sampled. It
  samples nothing that would bring the difference below `min_diff`, and nothing
  from fewer than `min_size` items. It inserts nothing that would bring the
  difference above `max_diff`, except for items that are missing to `min_size`.

  Attributes:
    samples_per_insert: samples that one insert allows.
    min_size: items in the table before the first is sampled.
    min_diff: samples.
    max_diff: samples.
  """

  samples_per_insert: float
  min_size: int
  min_diff: float
  max_diff: float

  @classmethod
  def from_min_size(cls, min_size: int) -> "Limiter":
    """Returns a limiter that only waits for `min_size` items."""
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

    The two bounds are those of Reverb's `SampleToInsertRatio`. Less room
    between them than two inserts' worth of samples could block both sides at
    once. There is also room for a whole batch wherever the inserts stop: a
    trainer that only gets parts of batches never learns.

    Args:
      samples_per_insert: above 0.
      min_size: items in the table before the first is sampled.
      batch_size: items a batch.
      tolerance: the part of `min_size` by which the ratio may drift.
    """
    ratio = samples_per_insert
    error_buffer = max(
      tolerance * min_size * ratio,
      2.0 * max(1.0, ratio),
      # One insert may not fit in below the upper bound; 1 is for rounding.
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
    """Returns the limiter of a queue: at most `capacity` items wait in it."""
    return cls(1.0, 1, 0.0, capacity)

  @property
  def bounded(self) -> bool:
    """Whether it holds a ratio, or only waits for `min_size`."""
    return self.max_diff < UNBOUNDED

  def difference(self, inserted: int, sampled: int) -> float:
    """Returns what the limiter holds between its bounds, in samples."""
    return inserted * self.samples_per_insert - sampled

  def samples_allowed(self, size: int, inserted: int, sampled: int) -> int:
    """Returns how many items may be sampled without another insert.

    Args:
      size: items in the table.
      inserted: items, since the table was made.
      sampled: items, since the table was made.

    Returns:
      0: none; `sys.maxsize`: any number.
    """
    if size < self.min_size:
      return 0
    if self.min_diff == -UNBOUNDED:
      return sys.maxsize
    now = self.difference(inserted, sampled)
    allowed = max(0, math.floor(now - self.min_diff))
    # That subtraction rounds; Reverb subtracts the samples.
    if now - (allowed + 1) >= self.min_diff:
      return allowed + 1
    return allowed - (allowed > 0 and now - allowed < self.min_diff)

  def inserts_missing(self, size: int, inserted: int, sampled: int) -> int:
    """Returns the inserts needed before one more sample may be taken.

    Args:
      size: items in the table.
      inserted: items, since the table was made.
      sampled: items, since the table was made.

    Returns:
      0: it may be taken at once.
    """
    after = self.difference(inserted, sampled) - 1
    missing = (self.min_diff - after) / self.samples_per_insert
    return max(0, self.min_size - size, math.ceil(missing))

  def samples_missing(self, size: int, inserted: int, sampled: int) -> int:
    """Returns the samples needed before one more insert; 0: none."""
    if size + 1 <= self.min_size:
      return 0
    after = self.difference(inserted + 1, sampled)
    return max(0, math.ceil(after - self.max_diff))
