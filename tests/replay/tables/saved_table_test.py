"""Tests of saved tables: their items are those of the table that was saved."""

import collections

import numpy as np
import pytest

from slipway.replay.tables import local_table, saved_table, table_snapshot
from tests.replay import given, served

SHAPE = (served.PACKING.record_bytes,)


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


def read(*folders, ends=2):
  return saved_table.read(folders, SHAPE, ends)


def numbers(records):
  return served.PACKING.unpack(records)["x"].tolist()


def test_a_reverb_table_is_read_in_the_order_of_insertion(tmp_path):
  sampled = save(tmp_path, [3.0, 1.0, 4.0, 0.0, 5.0], samples=40)
  found = read(tmp_path / "saved")
  assert numbers(found.content) == found.read.tolist() == [0, 1, 2, 3, 4]
  assert found.order.tolist() == [4, 2, 0, 1, 3]
  columns = found.columns
  assert columns["priority"].tolist() == [3.0, 1.0, 4.0, 0.0, 5.0]
  counts = collections.Counter(sampled)
  assert columns["times_sampled"].tolist() == [counts[i] for i in range(5)]
  assert found.counts["inserted"] == 5
  assert found.counts["sampled"] == 40
  assert found.counts["unique_sampled"] == len(counts)
  assert found.priority_exponent == 0.6
  weights = np.array([3.0, 1.0, 4.0, 0.0, 5.0]) ** 0.6 * [1, 1, 1, 0, 1]
  np.testing.assert_allclose(columns["probability"], weights / weights.sum())
  assert (np.diff(columns["age_s"]) <= 0).all()
  assert columns["age_s"][-1] == 0
  # Each call of `write` is a writer of its own, with a stream of its own.
  assert found.streams is not None
  assert len(set(found.streams)) == 5


def test_shards_are_one_table(tmp_path):
  for i, priorities in enumerate(([1.0, 3.0], [2.0])):
    save(tmp_path / str(i), priorities)
  found = read(*(tmp_path / str(i) / "saved" for i in range(2)))
  assert numbers(found.content) == [0, 1, 0]
  assert found.columns["priority"].tolist() == [1.0, 3.0, 2.0]
  assert found.columns["probability"][2] == 0.5
  assert found.columns["probability"].sum() == pytest.approx(1.0)
  assert found.counts["inserted"] == 3


def test_evicted_items_are_counted(tmp_path):
  save(tmp_path, range(7), capacity=3, prioritized=False, batch_size=1)
  found = read(tmp_path / "saved")
  assert numbers(found.content) == [4, 5, 6]
  assert (found.counts["inserted"], found.counts["capacity"]) == (7, 3)
  assert found.priority_exponent is None
  assert found.columns["probability"].tolist() == [1 / 3] * 3
  assert found.order.tolist() == [2, 1, 0]  # the newest first


def test_an_empty_table_has_no_items(tmp_path):
  save(tmp_path, [])
  found = read(tmp_path / "saved")
  assert len(found.order) == len(found.read) == len(found.content) == 0


def test_a_damaged_file_is_named(tmp_path):
  save(tmp_path, [1.0, 2.0])
  path = tmp_path / "saved" / table_snapshot.CHUNKS
  path.write_bytes(path.read_bytes()[:-20])
  with pytest.raises(ValueError, match=r"chunks\.tfrecord.* can't be read"):
    read(tmp_path / "saved")


@pytest.mark.parametrize("exponent", [None, 0.5])
@pytest.mark.parametrize("inserts", [2, 4, 11])
def test_a_local_table_is_read_in_the_order_of_insertion(
  tmp_path, exponent, inserts
):
  table = local_table.LocalTable(4, served.PACKING.record_bytes, exponent, 0)
  for i in range(inserts):
    table.insert(served.numbers(i, 1), np.array([i + 1.0]))
  table.save(tmp_path)
  found = read(tmp_path)
  kept = list(range(inserts))[-4:]
  assert numbers(found.content) == kept
  assert found.counts["inserted"] == inserts
  expected = [1.0] * len(kept) if exponent is None else [i + 1 for i in kept]
  np.testing.assert_allclose(found.columns["priority"], expected)


def test_both_ends_of_a_large_table_are_read(tmp_path):
  table = local_table.LocalTable(30_000, *SHAPE, 0.5, 0)
  table.insert(served.numbers(0, 30_000), np.arange(30_000, 0, -1.0))
  table.save(tmp_path)
  found = read(tmp_path, ends=1)
  assert {0, 29_999} <= set(found.read)
  assert len(found.read) < 30_000
  assert numbers(found.content) == found.read.tolist()
