"""Tests of saved tables: their items are those of the table that was saved."""

import collections

import numpy as np
import pytest

from slipway.replay.items import item_reader, packing
from slipway.replay.tables import (
  local_table,
  saved_table,
  table_snapshot,
  tables,
)
from tests.replay import given, served

READER = item_reader.ItemReader(
  {
    "item": "number",
    "record_bytes": served.PACKING.record_bytes,
    "fields": served.PACKING.describe(),
  }
)


def choose_all(priorities):
  everything = np.arange(len(priorities))
  return saved_table.Chosen(everything, everything[:2])


def save(tmp_path, priorities, samples=0, **fields):
  """Saves a table of numbers from 0; returns the sampled numbers."""
  spec = given.make_table_spec(8, min_size=1, samples_per_insert=0.0, **fields)
  manager = served.serve(spec, folders=(tmp_path / "saving", None))
  for i, priority in enumerate(priorities):
    served.write(manager, served.numbers(i, 1), [priority])
  sampled = []
  if samples:
    sampled = [served.number_of(x) for x in served.sample(manager, samples)]
  path = tmp_path / "saved"
  table_snapshot.TableSaver(manager.address, tmp_path / "saving", path).finish()
  manager.close()
  return sampled


def read(tmp_path, choose=choose_all):
  return saved_table.read_reverb(
    tmp_path / "saved", tables.TRANSITIONS, READER, choose
  )


def numbers(records):
  return READER.read_records(records)["x"].tolist()


def test_a_reverb_table_is_read_in_the_order_of_insertion(tmp_path):
  sampled = save(tmp_path, [3.0, 1.0, 4.0, 0.0, 5.0], samples=40)
  found = read(tmp_path)
  assert numbers(found.last) == [0, 1, 2, 3, 4]
  assert numbers(found.whole[:, 0]) == [0, 1]
  assert found.priorities.tolist() == [3.0, 1.0, 4.0, 0.0, 5.0]
  counts = collections.Counter(sampled)
  assert found.times_sampled.tolist() == [counts[i] for i in range(5)]
  assert (found.inserted, found.sampled) == (5, 40)
  assert found.unique_sampled == len(counts)
  assert found.priority_exponent == 0.6
  weights = np.array([3.0, 1.0, 4.0, 0.0, 5.0]) ** 0.6 * [1, 1, 1, 0, 1]
  np.testing.assert_allclose(found.probabilities, weights / weights.sum())
  assert (np.diff(found.inserted_at_s) >= 0).all()
  # Each call of `write` is a writer of its own, with a stream of its own.
  assert len(set(found.streams)) == 5


def test_evicted_items_are_counted(tmp_path):
  save(tmp_path, range(7), capacity=3, prioritized=False, batch_size=1)
  found = read(tmp_path)
  assert numbers(found.last) == [4, 5, 6]
  assert (found.inserted, found.capacity) == (7, 3)
  assert found.priority_exponent is None
  assert found.probabilities.tolist() == [1 / 3] * 3


def test_an_empty_table_has_no_items(tmp_path):
  save(tmp_path, [])
  found = read(tmp_path)
  assert len(found.priorities) == len(found.last) == len(found.whole) == 0


def test_a_damaged_file_is_named(tmp_path):
  save(tmp_path, [1.0, 2.0])
  path = tmp_path / "saved" / table_snapshot.CHUNKS
  path.write_bytes(path.read_bytes()[:-20])
  with pytest.raises(ValueError, match=r"chunks\.tfrecord.* can't be read"):
    read(tmp_path)


@pytest.mark.parametrize("exponent", [None, 0.5])
@pytest.mark.parametrize("inserts", [2, 4, 11])
def test_a_local_table_is_read_in_the_order_of_insertion(
  tmp_path, exponent, inserts
):
  table = local_table.LocalTable(4, served.PACKING.record_bytes, exponent, 0)
  for i in range(inserts):
    table.insert(served.numbers(i, 1), np.array([i + 1.0]))
  table.save(tmp_path)
  found = saved_table.read_local(tmp_path, READER, choose_all)
  kept = list(range(inserts))[-4:]
  assert numbers(found.last) == kept
  assert numbers(found.whole[:, 0]) == kept[:2]
  assert found.inserted == inserts
  expected = [1.0] * len(kept) if exponent is None else [i + 1 for i in kept]
  np.testing.assert_allclose(found.priorities, expected)


def test_a_description_without_an_entry_is_rejected():
  with pytest.raises(ValueError, match=r"items\.json"):
    item_reader.ItemReader({"item": "transition", "fields": []})


def test_the_version_is_no_part_of_the_content():
  layout = packing.Packing(
    {"a": (np.dtype(np.int32), ()), "version": (np.dtype(np.int64), ())}
  )
  reader = item_reader.ItemReader(
    {
      "item": "transition",
      "record_bytes": layout.record_bytes,
      "fields": layout.describe(),
    }
  )
  records = layout.pack(
    {"a": np.array([1, 1, 2]), "version": np.array([1, 2, 2])}
  )
  contents = records[:, reader.content_mask]
  assert [row.tobytes() for row in contents] == [
    np.int32(x).tobytes() for x in (1, 1, 2)
  ]
