"""Tests of LocalTable: frequencies, updates, seeds, and Reverb's semantics."""

import numpy as np
import pytest

from slipway.replay.tables import local_table
from tests.replay import given

PRIORITIES = np.array([0.0, 1.0, 2.0, 4.0, 9.0])
EXPONENT = 0.5
SAMPLES = 20_000


make_records = given.make_records


def make_table(capacity=5, exponent=EXPONENT, seed=0):
  return local_table.LocalTable(capacity, 8, exponent, seed)


def assert_frequencies(counts, expected):
  """Checks that counts are within five standard deviations of a binomial."""
  total = counts.sum()
  sigma = np.sqrt(expected * (1 - expected) * total)
  np.testing.assert_array_less(
    np.abs(counts - expected * total), 5 * sigma + 1e-9
  )


@pytest.mark.parametrize(
  ("exponent", "priorities"),
  [
    *((exponent, PRIORITIES) for exponent in (0.0, 0.5, 1.0, 2.0)),
    (None, PRIORITIES),  # uniform
    (0.6, np.zeros(5)),  # no item has a weight
  ],
)
def test_items_are_sampled_in_proportion(exponent, priorities):
  table = make_table(8, exponent)
  table.insert(make_records(0, 5), priorities)
  keys, probabilities, table_size, records = table.sample(SAMPLES)
  assert (keys.dtype, probabilities.dtype) == (np.uint64, np.float64)
  assert (table_size, table.sampled) == (5, SAMPLES)
  np.testing.assert_array_equal(records.view(np.uint64)[:, 0], keys)
  expected = np.full(5, 0.2)
  if exponent is not None and priorities.any():
    weights = np.where(priorities > 0, priorities**exponent, 0)
    expected = weights / weights.sum()
  np.testing.assert_allclose(probabilities, expected[keys.astype(int)])
  assert_frequencies(np.bincount(keys.astype(int), minlength=5), expected)


@pytest.mark.parametrize("exponent", [None, 1.0])
@pytest.mark.parametrize("capacity", [1, 3, 8, 100])
def test_oldest_is_evicted(capacity, exponent):
  table = make_table(capacity, exponent)
  random = np.random.default_rng(0)
  for _ in range(50):
    count = int(random.integers(0, 12))
    priorities = random.random(count) + 0.1
    table.insert(make_records(table.inserted, count), priorities)
    if not table.inserted:
      continue
    assert table.size == min(table.inserted, capacity)
    keys, _, table_size, records = table.sample(64)
    assert table_size == table.size
    assert keys.min() >= table.inserted - table.size
    assert keys.max() < table.inserted
    np.testing.assert_array_equal(records.view(np.uint64)[:, 0], keys)
  keys = table.sample(SAMPLES)[0]
  assert len(set(keys.tolist())) == table.size


def test_updates_take_effect_and_evicted_keys_are_left_out():
  table = make_table(4, 1.0)
  table.insert(make_records(0, 6), np.ones(6))  # keys 2 to 5 are held
  keys = np.array([0, 1, 2, 5, 5, 6, 2**40], np.uint64)
  table.update_priorities(keys, np.array([50.0, 60, 3, 7, 0, 90, 80]))
  expected = np.array([0, 0, 3, 1, 1, 0]) / 5
  keys, probabilities, _, _ = table.sample(SAMPLES)
  np.testing.assert_allclose(probabilities, expected[keys.astype(int)])
  assert_frequencies(np.bincount(keys.astype(int), minlength=6), expected)


def test_random_operations_against_a_dictionary():
  table = make_table(37, 0.7)
  random, held = np.random.default_rng(1), {}
  for _ in range(300):
    count = int(random.integers(1, 9))
    priorities = random.exponential(size=count) * 10.0 ** random.integers(-6, 6)
    held |= dict(enumerate(priorities, table.inserted))
    table.insert(make_records(table.inserted, count), priorities)
    held = dict(list(held.items())[-37:])
    keys, probabilities, _, _ = table.sample(16)
    total = sum(p**0.7 for p in held.values())
    expected = [held[int(key)] ** 0.7 / total for key in keys]
    np.testing.assert_allclose(probabilities, expected, rtol=1e-12)
    priorities = random.exponential(size=16)
    held |= dict(zip(keys.tolist(), priorities.tolist(), strict=True))
    table.update_priorities(keys, priorities)


def test_item_without_weight_is_never_sampled():
  table = make_table(1_000, 1.0)
  priorities = np.random.default_rng(0).random(1_000) * 1e-3
  priorities[::3] = 0.0
  priorities[-1] = 0.0
  priorities[1] = 1e9  # its rounding error exceeds all other priorities
  table.insert(make_records(0, 1_000), priorities)
  keys, probabilities, _, _ = table.sample(100_000)
  assert (priorities[keys.astype(int)] > 0).all()
  assert (probabilities > 0).all()
  # By rounding, the random sum of a sample may equal the sum of all weights, or
  # exceed that of a subtree.
  total = table._sums[1]
  ends = np.array([0.0, np.nextafter(total, 0), total, total * (1 + 1e-12)])
  assert (priorities[table._find_slots(ends)] > 0).all()


@pytest.mark.parametrize("exponent", [None, 0.6])
def test_equal_seeds_give_equal_samples(exponent):
  def run(seed):
    table, sampled = make_table(50, exponent, seed), []
    for i in range(20):
      table.insert(make_records(table.inserted, 8), np.arange(8.0) + i)
      keys = table.sample(32)[0]
      table.update_priorities(keys, (keys % 7).astype(np.float32))
      sampled.append(keys)
    return np.concatenate(sampled)

  np.testing.assert_array_equal(run(3), run(3))
  assert (run(3) != run(4)).any()


def fill(table, random, calls):
  """Inserts, samples and updates items; returns the samples."""
  samples = []
  for _ in range(calls):
    count = int(random.integers(1, 9))
    priorities = random.exponential(size=count)
    table.insert(make_records(table.inserted, count), priorities)
    samples.append(table.sample(16))
    table.update_priorities(samples[-1][0], random.exponential(size=16))
  return samples


def assert_equal_samples(samples, others):
  for sample, other in zip(samples, others, strict=True):
    for array, other_array in zip(sample, other, strict=True):
      np.testing.assert_array_equal(array, other_array)


@pytest.mark.parametrize("exponent", [None, 0.0, 0.6])
@pytest.mark.parametrize("calls", [0, 3, 100])  # empty, partly full, evicting
def test_a_loaded_table_continues_equally(tmp_path, exponent, calls):
  table = make_table(100, exponent, seed=7)
  fill(table, np.random.default_rng(0), calls)
  table.save(tmp_path)
  loaded = make_table(100, exponent, seed=8)
  loaded.load(tmp_path)
  expected = fill(table, np.random.default_rng(1), 60)
  assert_equal_samples(fill(loaded, np.random.default_rng(1), 60), expected)
  assert (loaded.inserted, loaded.sampled) == (table.inserted, table.sampled)


def test_a_table_that_continues_does_not_change_its_saved_state(tmp_path):
  table = make_table(10)
  fill(table, np.random.default_rng(0), 9)
  table.save(tmp_path)
  first, second = make_table(10), make_table(10)
  first.load(tmp_path)
  expected = fill(first, np.random.default_rng(1), 20)
  second.load(tmp_path)
  assert_equal_samples(fill(second, np.random.default_rng(1), 20), expected)


@pytest.mark.parametrize("capacity", [37, 41, 64, 500])
@pytest.mark.parametrize("calls", [4, 100])
def test_another_capacity_holds_the_same_items(tmp_path, capacity, calls):
  table = make_table(37, 0.6)
  fill(table, np.random.default_rng(0), calls)
  table.save(tmp_path)
  loaded = make_table(capacity, 0.6)
  loaded.load(tmp_path)
  assert loaded.size == table.size

  def weights(table):
    keys, probabilities, _, records = table.sample(SAMPLES)
    np.testing.assert_array_equal(records.view(np.uint64)[:, 0], keys)
    return dict(zip(keys.tolist(), probabilities.tolist(), strict=True))

  found, expected = weights(loaded), weights(table)
  assert len(found) > 0.8 * table.size
  for key in found.keys() & expected.keys():
    assert found[key] == pytest.approx(expected[key], rel=1e-12)
  # The next inserts fill the slots of the new capacity.
  fill(loaded, np.random.default_rng(1), 200)
  assert loaded.size == capacity
  assert min(weights(loaded)) >= loaded.inserted - capacity


@pytest.mark.parametrize(
  ("capacity", "record_bytes", "exponent", "message"),
  [
    (4, 8, EXPONENT, "5 items of 8 bytes, but the config's table takes 4 of 8"),
    (5, 9, EXPONENT, "5 items of 8 bytes, but the config's table takes 5 of 9"),
    (5, 8, None, "priority_exponent=0.5"),
    (5, 8, 0.6, "priority_exponent=0.5"),
  ],
)
def test_a_table_that_does_not_fit_is_rejected(
  tmp_path, capacity, record_bytes, exponent, message
):
  table = make_table()
  table.insert(make_records(0, 5), PRIORITIES)
  table.save(tmp_path)
  other = local_table.LocalTable(capacity, record_bytes, exponent, 0)
  with pytest.raises(ValueError, match="resume with") as error:
    other.load(tmp_path)
  assert message in str(error.value) and "\n" not in str(error.value)
  assert other.size == 0


def test_bad_priorities_are_errors():
  table = make_table()
  with pytest.raises(ValueError, match=r"priorities\[0\]=nan"):
    table.insert(make_records(0, 1), np.array([np.nan]))
  table.insert(make_records(0, 1), np.ones(1))
  with pytest.raises(ValueError, match=r"priorities\[0\]=-1"):
    table.update_priorities(np.array([0], np.uint64), np.array([-1.0]))
  assert table.inserted == 1
