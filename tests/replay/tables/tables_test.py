"""Tests of tables and priorities in a real server, by sample frequencies."""

import time

import numpy as np
import portpicker
import pytest
import reverb
import tensorflow as tf

from slipway.replay.items import packing as packing_lib
from slipway.replay.items import writer as writer_lib
from slipway.replay.tables import (
  priority_pusher,
  tables,
  trajectory_manager,
)
from slipway.replay.transport import routes
from tests.replay import given

PACKING = packing_lib.Packing({"x": (np.dtype(np.int64), ())})
PRIORITIES = np.array([0.5, 1.0, 2.0, 4.0, 9.0])
EXPONENT = 0.6
SAMPLES = 20_000


def make_spec(**fields):
  return given.make_table_spec(
    PACKING.record_bytes,
    **{
      "capacity": 5,
      "min_size": 5,
      "samples_per_insert": 0.0,  # no limit on samples
      "priority_exponent": EXPONENT,
      **fields,
    },
  )


def serve(spec):
  return trajectory_manager.TrajectoryManager(
    [tables.make_table(spec)], portpicker.pick_unused_port()
  )


def write(address, start, priorities):
  """Writes items that hold start, start + 1, ..."""
  writer = writer_lib.ItemWriter(
    routes.DirectRoute(address), tables.TRANSITIONS
  )
  values = np.arange(start, start + len(priorities))
  assert writer.wait(timeout_s=20)
  writer.write(PACKING.pack({"x": values}), np.asarray(priorities))
  assert writer.close(timeout_s=20)


def sample(address, count):
  """Returns the infos and values of `count` new samples."""
  items = reverb.TrajectoryDataset(
      address, tables.TRANSITIONS, tf.uint8,
      tf.TensorShape([PACKING.record_bytes]), 200,
  )  # fmt: skip
  batch = next(iter(items.batch(count)))
  return batch.info, PACKING.unpack(batch.data.numpy())["x"]


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
  manager = serve(make_spec())
  write(manager.address, 0, PRIORITIES)
  yield manager
  manager.close()


def test_prioritized_table_samples_in_proportion(prioritized):
  info, values = sample(prioritized.address, SAMPLES)
  expected = in_proportion(PRIORITIES)
  np.testing.assert_allclose(info.probability, expected[values])
  np.testing.assert_array_equal(info.table_size, np.full(SAMPLES, 5))
  assert_frequencies(values, expected)


def test_uniform_table_samples_equally():
  manager = serve(make_spec(priority_exponent=None))
  write(manager.address, 0, PRIORITIES)
  info, values = sample(manager.address, SAMPLES)
  np.testing.assert_allclose(info.probability, np.full(SAMPLES, 0.2))
  assert_frequencies(values, np.full(5, 0.2))
  manager.close()


@pytest.fixture
def pusher(prioritized):
  pusher = priority_pusher.PriorityPusher(prioritized.address)
  yield pusher
  pusher.close(timeout_s=20)


def test_pushed_priorities_take_effect(prioritized, pusher):
  info, values = sample(prioritized.address, 1_000)
  _, index = np.unique(values, return_index=True)
  keys = info.key.numpy()[index]  # keys of items 0 to 4
  evicted = 12345  # unknown key, like that of an evicted item
  # If a key occurs twice, its last priority counts.
  pushed = np.array([keys[0], keys[4], evicted, keys[4]], np.uint64)
  pusher.push(pushed, np.float32([8.0, 100.0, 7.0, 0.25]))
  expected = in_proportion([8, 1, 2, 4, 0.25])

  def arrived():
    info, values = sample(prioritized.address, 100)
    return np.allclose(info.probability, expected[values])

  end_s = time.monotonic() + 20
  while not arrived():
    assert time.monotonic() < end_s
  info, values = sample(prioritized.address, SAMPLES)
  np.testing.assert_allclose(info.probability, expected[values])
  assert_frequencies(values, expected)
  reverb.Client(prioritized.address).mutate_priorities(
    tables.TRANSITIONS, dict(zip(keys.tolist(), PRIORITIES, strict=True))
  )
  info, values = sample(prioritized.address, 1_000)
  np.testing.assert_allclose(
    info.probability, in_proportion(PRIORITIES)[values]
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


def test_oldest_is_evicted_first():
  manager = serve(make_spec(priority_exponent=None))
  write(manager.address, 0, np.ones(7))
  _, values = sample(manager.address, 1_000)
  assert set(values.tolist()) == {2, 3, 4, 5, 6}
  manager.close()


def test_settings_follow_the_spec():
  spec = make_spec(capacity=1_000, min_size=100, samples_per_insert=8.0)
  info = tables.make_table(spec).info
  assert info.name == tables.TRANSITIONS
  assert info.max_size == 1_000
  assert info.max_times_sampled == 0
  assert info.sampler_options.prioritized.priority_exponent == pytest.approx(
    EXPONENT
  )
  assert info.remover_options.fifo
  assert info.signature == tf.TensorSpec([8], tf.uint8)
  limiter = info.rate_limiter_info
  assert limiter.min_size_to_sample == 100
  assert limiter.samples_per_insert == 8.0
  assert limiter.min_diff == pytest.approx(800 - 400)
  assert limiter.max_diff == pytest.approx(800 + 400)


def test_a_table_can_have_the_limiter_of_sync_mode():
  spec = make_spec(capacity=1_000, min_size=100, samples_per_insert=8.0)
  limiter = tables.make_table(spec, spec.round_limiter).info.rate_limiter_info
  assert limiter.min_size_to_sample == 100
  assert limiter.max_diff > 1e30


def test_without_ratio_only_the_minimum_limits():
  info = tables.make_table(make_spec(min_size=3)).info
  assert info.rate_limiter_info.min_size_to_sample == 3
  assert info.rate_limiter_info.max_diff > 1e30


@pytest.mark.parametrize("ratio", [0.01, 0.5, 1.0, 8.0, 100.0])
@pytest.mark.parametrize("tolerance", [1e-6, 0.5, 10.0])
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
  end_s = time.monotonic() + 20
  while time.monotonic() < end_s:
    info, values = sample(prioritized.address, 100)
    if np.allclose(info.probability, expected[values]):
      break
  np.testing.assert_allclose(info.probability, expected[values])
