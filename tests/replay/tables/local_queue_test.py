"""Tests of LocalQueue: each item once, in order; LocalTable's interface."""

import numpy as np
import pytest

from slipway.replay.tables import local_queue, local_table
from tests.replay import given

TABLES = {
  "queue": {"is_queue": True, "priority_exponent": None},
  "uniform": {"priority_exponent": None},
  "prioritized": {},
}


def insert(table, count):
  table.insert(given.make_records(table.inserted, count), np.ones(count))


@pytest.mark.parametrize("kind", TABLES)
def test_tables_and_queues_have_one_interface(tmp_path, kind):
  spec = given.make_table_spec(8, capacity=20, **TABLES[kind])
  table = local_table.make_table(spec, seed=1)
  insert(table, 12)
  sampled = table.sample(5)
  keys, probabilities, size, records = sampled
  assert (keys.dtype, probabilities.dtype) == (np.uint64, np.float64)
  assert keys.shape == probabilities.shape == (5,)
  np.testing.assert_array_equal(records.view(np.uint64)[:, 0], keys)
  assert (size, table.inserted, table.sampled) == (12, 12, 5)
  assert table.size == (7 if spec.is_queue else 12)
  table.save(tmp_path)
  loaded = local_table.make_table(spec, seed=2)
  loaded.load(tmp_path)
  for each in (table, loaded):
    insert(each, 3)
  assert (loaded.size, loaded.inserted, loaded.sampled) == (
    table.size,
    table.inserted,
    table.sampled,
  )
  for count in (4, 6):
    for one, other in zip(
      table.sample(count), loaded.sample(count), strict=True
    ):
      np.testing.assert_array_equal(one, other)


def test_items_come_once_and_in_order():
  queue, keys = local_queue.LocalQueue(8), []
  for inserted, sampled in ((5, 2), (0, 3), (7, 4), (1, 4)):
    insert(queue, inserted)
    found, probabilities, size, records = queue.sample(sampled)
    assert size == queue.size + sampled
    np.testing.assert_array_equal(records.view(np.uint64)[:, 0], found)
    np.testing.assert_array_equal(probabilities, np.ones(sampled))
    keys += found.tolist()
  assert keys == list(range(13))
  assert queue.size == 0


def test_items_are_copied():
  queue, records = local_queue.LocalQueue(8), given.make_records(0, 4)
  queue.insert(records, np.ones(4))
  records[:] = 0
  assert queue.sample(4)[3].view(np.uint64)[:, 0].tolist() == [0, 1, 2, 3]


def test_an_empty_queue_is_saved_and_loaded(tmp_path):
  queue = local_queue.LocalQueue(8)
  insert(queue, 2)
  queue.sample(2)
  queue.save(tmp_path)
  loaded = local_queue.LocalQueue(8)
  loaded.load(tmp_path)
  assert (loaded.size, loaded.inserted, loaded.sampled) == (0, 2, 2)
  insert(loaded, 1)
  assert loaded.sample(1)[0].tolist() == [2]


def test_items_of_another_size_are_rejected(tmp_path):
  queue = local_queue.LocalQueue(8)
  insert(queue, 2)
  queue.save(tmp_path)
  other = local_queue.LocalQueue(9)
  with pytest.raises(ValueError, match="items of 8 bytes") as error:
    other.load(tmp_path)
  assert "\n" not in str(error.value)
  assert other.size == 0
