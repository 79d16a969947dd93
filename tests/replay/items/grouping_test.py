"""Tests of Grouping: each transition is kept once, with its priority."""

import numpy as np
import pytest

from slipway.replay.items import grouping, priorities


def batches(counts):
  """Yields records that hold their own number, which is also their priority."""
  start = 0
  for count in counts:
    numbers = np.arange(start, start + count)
    records = np.stack([numbers % 256, numbers // 256], axis=1).astype(np.uint8)
    yield records, numbers.astype(np.float32)
    start += count


def numbers_of(records):
  return records[..., 0].astype(int) + 256 * records[..., 1]


@pytest.mark.parametrize("size", [1, 2, 3, 8, 50])
def test_records_keep_their_order_and_items_get_mean_priorities(size):
  counts = np.random.default_rng(size).integers(0, 20, 40)
  groups, found = grouping.Grouping(size, record_bytes=2), []
  for records, priority in batches(counts):
    full = groups.add(records, priority)
    if full is not None:
      assert full[0].shape == (len(full[1]), size, 2)
      means = numbers_of(full[0]).mean(axis=1)
      np.testing.assert_allclose(full[1], means, rtol=1e-6)
      found += numbers_of(full[0]).ravel().tolist()
  assert found == list(range(len(found)))
  assert sum(counts) - size < len(found) <= sum(counts)


def test_another_grouping_continues_from_a_state():
  first, second, third = batches([5, 4, 7])
  groups = grouping.Grouping(8, record_bytes=2)
  assert groups.add(*first) is None
  state = groups.get_state()
  assert groups.add(*second) is not None, "does not change the saved state"
  other = grouping.Grouping(8, record_bytes=2)
  other.set_state(state)
  full = other.add(*third)
  assert full is not None
  assert numbers_of(full[0]).ravel().tolist() == [0, 1, 2, 3, 4, 9, 10, 11]


@pytest.mark.parametrize("items", [1, 2, 6])
def test_priorities_of_items_are_means(items):
  new = np.random.default_rng(0).random(6)
  np.testing.assert_allclose(
    priorities.mean_per_item(new, items), new.reshape(items, -1).mean(axis=1)
  )
