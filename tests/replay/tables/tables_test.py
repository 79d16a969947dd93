"""Tests of tables and priorities in a real server, by sample frequencies."""

import numpy as np
import pytest
import reverb
import tensorflow as tf

from slipway.replay.tables import priority_pusher, tables
from tests import polling
from tests.replay import given, served

PRIORITIES = np.array([0.5, 1.0, 2.0, 4.0, 9.0])
EXPONENT = 0.6
SAMPLES = 20_000


def make_spec(**fields):
  return given.make_table_spec(
    8,
    **{
      "capacity": 5,
      "min_size": 5,
      "samples_per_insert": 0.0,  # no limit on samples
      "priority_exponent": EXPONENT,
      **fields,
    },
  )


def sample(address, count):
  """Returns the infos and values of `count` new samples."""
  items = reverb.TrajectoryDataset(
    address, tables.TRANSITIONS, tf.uint8, tf.TensorShape([8]), 200
  )
  batch = next(iter(items.batch(count)))
  return batch.info, served.PACKING.unpack(batch.data.numpy())["x"]


def assert_frequencies(values, expected):
  """Checks that counts are within five standard deviations of a binomial."""
  counts = np.bincount(values, minlength=len(expected))
  total = counts.sum()
  sigma = np.sqrt(expected * (1 - expected) * total)
  np.testing.assert_array_less(
    np.abs(counts - expected * total), 5 * sigma + 1e-9
  )


def in_proportion(priorities):
  weights = np.asarray(priorities, float) ** EXPONENT
  return weights / weights.sum()


@pytest.fixture(scope="module")
def prioritized():
  manager = served.serve(make_spec())
  served.write(manager, served.numbers(0, 5), PRIORITIES)
  yield manager
  manager.close()


def test_prioritized_table_samples_in_proportion(prioritized):
  info, values = sample(prioritized.address, SAMPLES)
  expected = in_proportion(PRIORITIES)
  np.testing.assert_allclose(info.probability, expected[values])
  np.testing.assert_array_equal(info.table_size, np.full(SAMPLES, 5))
  assert_frequencies(values, expected)


def test_uniform_table_samples_equally_and_evicts_the_oldest():
  manager = served.serve(make_spec(priority_exponent=None))
  served.write(manager, served.numbers(0, 7), np.arange(7.0))
  info, values = sample(manager.address, SAMPLES)
  np.testing.assert_allclose(info.probability, np.full(SAMPLES, 0.2))
  assert_frequencies(values, np.array([0, 0, 1, 1, 1, 1, 1]) / 5)
  manager.close()


@pytest.fixture
def pusher(prioritized):
  pusher = priority_pusher.PriorityPusher(prioritized.address)
  yield pusher
  pusher.close(timeout_s=20)


def wait_for(manager, expected):
  """Waits until the items have these probabilities."""

  def arrived():
    info, values = sample(manager.address, 100)
    return np.allclose(info.probability, expected[values])

  polling.wait_until(arrived)


def test_pushed_priorities_take_effect(prioritized, pusher):
  info, values = sample(prioritized.address, 1_000)
  _, index = np.unique(values, return_index=True)
  keys = info.key.numpy()[index]  # keys of items 0 to 4
  evicted = 12345  # unknown key, like that of an evicted item
  # If a key occurs twice, its last priority counts.
  pushed = np.array([keys[0], keys[4], evicted, keys[4]], np.uint64)
  pusher.push(pushed, np.float32([8.0, 100.0, 7.0, 0.25]))
  expected = in_proportion([8, 1, 2, 4, 0.25])

  wait_for(prioritized, expected)
  info, values = sample(prioritized.address, SAMPLES)
  np.testing.assert_allclose(info.probability, expected[values])
  assert_frequencies(values, expected)
  reverb.Client(prioritized.address).mutate_priorities(
    tables.TRANSITIONS, dict(zip(keys.tolist(), PRIORITIES, strict=True))
  )


@pytest.mark.parametrize("bad", [np.nan, np.inf, -1.0])
def test_a_pushed_priority_that_no_table_can_hold_is_rejected(
  prioritized, pusher, bad
):
  info, _ = sample(prioritized.address, 100)
  for _ in range(5):  # the pusher's thread is still running
    with pytest.raises(ValueError, match=r"priorities\[0\]=.* finite"):
      pusher.push(info.key.numpy()[:1], np.float32([bad]))
  info, values = sample(prioritized.address, 100)
  np.testing.assert_allclose(
    info.probability, in_proportion(PRIORITIES)[values]
  )


@pytest.mark.parametrize("ratio", [0.01, 1.0, 100.0])
@pytest.mark.parametrize("tolerance", [1e-6, 10.0])
@pytest.mark.parametrize("min_size", [1, 1_000])
def test_no_valid_config_is_rejected_by_reverb(ratio, tolerance, min_size):
  spec = make_spec(
    samples_per_insert=ratio,
    tolerance=tolerance,
    min_size=min_size,
    capacity=1_000,
  )
  limiter = tables.make_table(spec).info.rate_limiter_info
  # The bounds always leave room for an insert and a sample.
  assert limiter.max_diff - limiter.min_diff >= 2 * max(1.0, ratio)


def test_invalid_priorities_of_known_keys_are_skipped(prioritized, pusher):
  info, values = sample(prioritized.address, 1_000)
  _, index = np.unique(values, return_index=True)
  keys = info.key.numpy()[index]
  pusher.push(keys[:3], np.float32([np.nan, 5.0, -1.0]))
  expected = in_proportion([PRIORITIES[0], 5.0, *PRIORITIES[2:]])
  wait_for(prioritized, expected)
