"""The limiter: Reverb's rate limiter of the transitions, in numbers."""

import math
import sys
import typing

import ml_collections

from configs import sizes


class Limiter(typing.NamedTuple):
  """Who may go on, by what a table has counted.

  Reverb counts the difference inserted * samples_per_insert - sampled. Nothing
  is sampled that would bring it below `min_diff`, or from fewer than `min_size`
  items; nothing is inserted that would bring it above `max_diff`, but what is
  missing to `min_size`.

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
  def of(cls, config: ml_collections.ConfigDict) -> "Limiter":
    """The limiter that a config's table has.

    Args:
      config: the whole config.
    """
    ratio = config.replay.samples_per_insert
    min_size = sizes.Sizes.of(config).min_size
    if not ratio or config.mode == "sync":
      return cls(1.0, min_size, -sys.float_info.max, sys.float_info.max)
    buffer = error_buffer(config)
    return cls(
      ratio, min_size, ratio * min_size - buffer, ratio * min_size + buffer
    )

  @property
  def bounded(self) -> bool:
    """Whether it holds a ratio, or only waits for `min_size`."""
    return self.max_diff < sys.float_info.max

  def difference(self, inserted: int, sampled: int) -> float:
    """What the limiter holds between its bounds, in samples."""
    return inserted * self.samples_per_insert - sampled

  def samples_allowed(self, size: int, inserted: int, sampled: int) -> int:
    """Items that may be sampled at once, without another insert.

    Args:
      size: items in the table.
      inserted: items, since the table was made.
      sampled: items, since the table was made.

    Returns:
      0: none; `sys.maxsize`: any number.
    """
    if size < self.min_size:
      return 0
    if not self.bounded:
      return sys.maxsize
    now = self.difference(inserted, sampled)
    allowed = max(0, math.floor(now - self.min_diff))
    # That subtraction rounds; Reverb subtracts the samples.
    if now - (allowed + 1) >= self.min_diff:
      return allowed + 1
    return allowed - (allowed > 0 and now - allowed < self.min_diff)

  def inserts_missing(self, size: int, inserted: int, sampled: int) -> int:
    """Items to insert before one more is sampled; 0: it may be at once."""
    if size < self.min_size:
      return self.min_size - size
    after = self.difference(inserted, sampled) - 1
    missing = (self.min_diff - after) / self.samples_per_insert
    return max(0, math.ceil(missing))

  def samples_missing(self, size: int, inserted: int, sampled: int) -> int:
    """Items to sample before one more is inserted; 0: it may be at once."""
    if size + 1 <= self.min_size:
      return 0
    after = self.difference(inserted + 1, sampled)
    return max(0, math.ceil(after - self.max_diff))


def error_buffer(config: ml_collections.ConfigDict) -> float:
  """How far samples may drift from samples_per_insert, in samples.

  The two sides of Reverb's SampleToInsertRatio. A buffer below two inserts'
  worth of samples could block both sides at once. Between the two sides there
  is room for a whole batch, too, wherever the inserts stop: a trainer that
  only gets parts of batches never learns.
  """
  replay, items = config.replay, sizes.Sizes.of(config)
  ratio = replay.samples_per_insert
  return max(
    replay.tolerance * items.min_size * ratio,
    2.0 * max(1.0, ratio),
    # One insert may not fit in below the upper side; 1 is for rounding.
    (items.batch_size + ratio + 1.0) / 2.0,
  )
