"""Weights of shards, with which all stored items count equally often."""

from collections.abc import Sequence

# Number of updates over which the fractions of the shards are averaged.
_AVERAGED_UPDATES = 1_000
# Lowest fraction of the updates, relative to an equal fraction, with which a
# shard affects the weights of others. With equally fast workers, shards have
# more than this. Otherwise, if all workers of a shard had died, its weight
# would grow without bound, and the relative weights of others would become 0.
_LOWEST_FRACTION = 0.5


class ShardWeights:
  """Weights of shards, from their numbers of items and of updates.

  All items of a batch come from one shard. Shard s has N_s items and gets a
  fraction f_s of the updates, so each of its items is sampled in proportion to
  f_s / N_s. The weight that corrects this, relative to the largest one, is

    w_s = (N_s / f_s) / max_t (N_t / f_t)

  f_s is measured, because it depends on the limiter. Without a ratio of samples
  to inserts, and in mode 'sync', shards alternate and have equal fractions. A
  limiter that holds the ratio grants samples in proportion to the inserts of
  its shard. While no shard is full, the numbers of items have that proportion,
  too, and all weights are 1. Once shards are full, the shard that gets more
  inserts has a lower weight.

  ```python
  weights = ShardWeights(2)
  weight = weights.weight(0, sizes=[700, 300])
  ...  # run 40 updates on batches of shard 0
  weights.record(0, 40, sizes=[700, 300])
  ```
  """

  def __init__(self, shards: int):
    """Assumes equal fractions at first."""
    self._fractions = [1.0 / shards] * shards
    self._lowest = _LOWEST_FRACTION / shards

  def weight(self, shard: int, sizes: Sequence[int]) -> float:
    """Returns the weight of a shard's items, in (0, 1].

    Args:
      sizes: number of items in each shard; 0: the shard can't be sampled.
    """
    own = max(1, sizes[shard]) / max(self._fractions[shard], self._lowest)
    others = (
      size / fraction
      for size, fraction in zip(sizes, self._fractions, strict=True)
      if fraction >= self._lowest
    )
    return own / max([own, *others])

  def record(self, shard: int, updates: int, sizes: Sequence[int]) -> None:
    """Counts updates on batches of a shard.

    A shard that can't be sampled keeps its fraction, so that it has about the
    right weight when it is back.

    Args:
      sizes: number of items in each shard; 0: the shard can't be sampled.
    """
    step = min(1.0, updates / _AVERAGED_UPDATES)
    total = self._fractions[shard]
    for other, size in enumerate(sizes):
      if size and other != shard:
        total += self._fractions[other]
        self._fractions[other] *= 1.0 - step
    self._fractions[shard] *= 1.0 - step
    self._fractions[shard] += step * total
