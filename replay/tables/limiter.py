"""Limiter: bounds of a table's rate limiter, and computations with them."""

import math
import sys
import typing

from slipway.replay.tables import table_status

# Value of `Limiter.max_diff` without an upper bound; negated, the value of
# `Limiter.min_diff` without a lower bound.
UNBOUNDED = sys.float_info.max

# Value of `Limiter.samples_per_insert` without a ratio of samples to inserts.
# Reverb rejects 0. No config has this value: `replay.samples_per_insert` is at
# most 1e9.
NO_RATIO = 2.0**53


def count_granted(
  inserted: int, before_first: int, samples_per_insert: float
) -> float:
  """Returns the number of samples that inserts grant, or less than 0.

  Args:
    before_first: number of inserts that grant no sample.
    samples_per_insert: number of samples that each further insert grants.
  """
  return (inserted - before_first) * samples_per_insert


class Limiter(typing.NamedTuple):
  """Parameters of a Reverb rate limiter, which blocks inserts or samples.

  Reverb computes the difference inserted * samples_per_insert - sampled. A
  sample blocks if the difference would fall below `min_diff`, or if the table
  has fewer than `min_size` items. An insert blocks if the difference would rise
  above `max_diff`, unless the table has fewer than `min_size` items.

  Attributes:
    samples_per_insert: number of samples that each insert grants; `NO_RATIO`:
      any number.
    min_size: items in the table before the first one is sampled.
    min_diff: lower bound of the difference, in samples.
    max_diff: upper bound of the difference, in samples.
  """

  samples_per_insert: float
  min_size: int
  min_diff: float
  max_diff: float

  @classmethod
  def from_min_size(
    cls, min_size: int, samples_per_insert: float = NO_RATIO
  ) -> "Limiter":
    """Returns a limiter that only blocks samples below `min_size` items.

    Args:
      samples_per_insert: ratio that the reader of the table holds, which the
        limiter does not enforce; `NO_RATIO`: the reader does not hold one.
    """
    return cls(samples_per_insert, min_size, -UNBOUNDED, UNBOUNDED)

  @classmethod
  def from_ratio(
    cls,
    samples_per_insert: float,
    min_size: int,
    batch_size: int,
    tolerance: float,
  ) -> "Limiter":
    """Returns a limiter that holds a ratio of samples to inserts.

    The bounds are those of Reverb's `SampleToInsertRatio`. Their distance is at
    least the samples of two inserts, or inserts and samples could block at the
    same time. It is also large enough for one batch at any number of inserts,
    or the trainer could wait for the rest of a batch for ever.

    Args:
      samples_per_insert: ratio of samples to inserts, above 0.
      tolerance: half of the bounds' distance, as a fraction of the samples that
        `min_size` inserts grant; raised if the distance is too small.
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
    """Returns the limiter of a queue of at most `capacity` items.

    Inserts block while the queue is full, samples while it is empty.
    """
    return cls(1.0, 1, 0.0, capacity)

  @property
  def bounded(self) -> bool:
    """Whether inserts can block, because `max_diff` is not `UNBOUNDED`."""
    return self.max_diff < UNBOUNDED

  def difference(self, inserted: int, sampled: int) -> float:
    """Returns inserted * samples_per_insert - sampled, in samples."""
    return inserted * self.samples_per_insert - sampled

  def samples_allowed(self, counts: table_status.TableStatus) -> int:
    """Returns the number of items that may be sampled before the next insert.

    Args:
      counts: the table's counts.

    Returns:
      A number of samples; `sys.maxsize`: no limit.
    """
    if counts.size < self.min_size:
      return 0
    if self.min_diff == -UNBOUNDED:
      return sys.maxsize
    now = self.difference(counts.inserted, counts.sampled)
    allowed = max(0, math.floor(now - self.min_diff))
    # That subtraction rounds; Reverb subtracts the samples from the inserts.
    if now - (allowed + 1) >= self.min_diff:
      return allowed + 1
    return allowed - (allowed > 0 and now - allowed < self.min_diff)
