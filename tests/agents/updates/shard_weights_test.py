"""Tests of shard weights: all stored items count equally often."""

import numpy as np
import pytest

from slipway.agents.updates import shard_weights
from slipway.replay.tables import limiter as limiter_lib
from slipway.replay.tables import table_status

MIN_SIZE, BATCH, RATIO = 500, 64, 8.0


class Shard:
  """Counts of one shard's table, with its limiter."""

  def __init__(self, capacity, limiter):
    self.capacity, self.limiter = capacity, limiter
    self.inserted = self.sampled = 0

  @property
  def size(self):
    return min(self.inserted, self.capacity)

  @property
  def counts(self):
    return table_status.TableStatus(self.size, self.inserted, self.sampled)

  def insert(self):
    after = self.limiter.difference(self.inserted + 1, self.sampled)
    if self.size < self.limiter.min_size or after <= self.limiter.max_diff:
      self.inserted += 1

  def sample(self):
    if self.limiter.samples_allowed(self.counts) < BATCH:
      return False
    self.sampled += BATCH
    return True


def simulate(shards, weights, workers, steps, updates_per_step=None):
  """Runs workers and a trainer that takes turns over the shards.

  Args:
    shards: S shards; worker i writes to shard i % S.
    weights: the shards' weights.
    workers: number of workers.
    steps: steps of each worker.
    updates_per_step: maximum updates of the trainer per step of the workers;
      None: all that the limiters allow.

  Returns:
    Total weight of the samples per stored item, and number of updates, by
    shard.
  """
  totals, updates = np.zeros((2, len(shards)))
  shard, limit = 0, np.inf if updates_per_step is None else 0.0
  for _ in range(steps):
    for worker in range(workers):
      shards[worker % len(shards)].insert()
    limit += updates_per_step or 0.0
    skipped = 0
    while updates.sum() + 1 <= limit and skipped < len(shards):
      sizes = [each.size if each.size >= MIN_SIZE else 0 for each in shards]
      skipped += 1
      if shards[shard].sample():
        totals[shard] += weights.weight(shard, sizes) / sizes[shard]
        weights.record(shard, 1, sizes)
        updates[shard] += 1
        skipped = 0
      shard = (shard + 1) % len(shards)
  return totals, updates


def make_shards(capacities, ratio=RATIO):
  limiter = limiter_lib.Limiter.from_min_size(MIN_SIZE)
  if ratio:
    limiter = limiter_lib.Limiter.from_ratio(ratio, MIN_SIZE, BATCH, 0.5)
  return [Shard(capacity, limiter) for capacity in capacities]


# capacity of each shard, number of workers, ratio of samples to inserts, steps
# of each worker before the measurement, sizes after it
CASES = {
  "no shard is full": ((60_000, 60_000), 3, RATIO, 14_000, [36_000, 18_000]),
  "one shard is full": ((20_000, 20_000), 3, RATIO, 14_000, [20_000, 18_000]),
  "all are full": ((10_000, 10_000), 3, RATIO, 14_000, [10_000, 10_000]),
  "equal": ((20_000, 20_000), 4, RATIO, 14_000, [20_000, 20_000]),
  "three shards": (
    (10_000, 10_000, 20_000), 5, RATIO, 14_000, [10_000, 10_000, 18_000]
  ),
  "no ratio": ((60_000, 60_000), 3, 0.0, 3_000, [14_000, 7_000]),
}  # fmt: skip


@pytest.mark.parametrize("title", CASES)
def test_all_stored_items_have_equal_weights(title):
  capacities, workers, ratio, before, sizes = CASES[title]
  shards = make_shards(capacities, ratio)
  weights = shard_weights.ShardWeights(len(shards))
  updates_per_step = None if ratio else 2
  simulate(shards, weights, workers, before, updates_per_step)
  totals, _ = simulate(shards, weights, workers, 4_000, updates_per_step)
  assert [shard.size for shard in shards] == sizes
  assert totals / totals[0] == pytest.approx(1.0, rel=0.03)


def test_a_slow_trainer_makes_the_inserts_of_all_shards_equal():
  shards = make_shards((60_000, 60_000))
  weights = shard_weights.ShardWeights(2)
  simulate(shards, weights, workers=3, steps=40_000, updates_per_step=0.2)
  sizes = [shard.size for shard in shards]
  assert sizes[0] < 1.1 * sizes[1]
  for shard in range(2):
    assert weights.weight(shard, sizes) > 0.9


def test_a_restarted_empty_shard_has_a_low_weight():
  shards = make_shards((20_000, 20_000))
  weights = shard_weights.ShardWeights(2)
  simulate(shards, weights, workers=2, steps=20_000)
  shards[1] = make_shards((20_000,))[0]
  simulate(shards, weights, workers=2, steps=1_000)
  assert shards[1].size == 1_000
  assert weights.weight(1, [20_000, 1_000]) == pytest.approx(0.05, rel=0.1)
  assert weights.weight(0, [20_000, 1_000]) == 1.0


def test_a_shard_that_is_down_has_its_old_weight_when_it_is_back():
  weights = shard_weights.ShardWeights(2)
  for _ in range(10_000):
    weights.record(0, 3, [700, 700])
    weights.record(1, 1, [700, 700])
  before = [weights.weight(shard, [700, 700]) for shard in range(2)]
  assert before == pytest.approx([1 / 3, 1.0], rel=0.01)
  for _ in range(10_000):
    weights.record(0, 3, [700, 0])
    assert weights.weight(0, [700, 0]) == 1.0
  after = [weights.weight(shard, [700, 700]) for shard in range(2)]
  assert after == pytest.approx(before, rel=0.01)


def test_a_shard_without_inserts_does_not_lower_the_weights_of_others():
  weights = shard_weights.ShardWeights(3)
  for _ in range(100_000):
    for shard in range(2):
      weights.record(shard, 4, [700, 700, 700])
  assert weights.weight(0, [700, 700, 700]) == pytest.approx(1.0, rel=0.01)
  assert weights.weight(2, [700, 700, 700]) == 1.0


def test_one_shard_has_weight_1():
  weights = shard_weights.ShardWeights(1)
  for size in (0, 1, 700):
    assert weights.weight(0, [size]) == 1.0
    weights.record(0, 10_000, [size])
