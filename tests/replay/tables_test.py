"""Tables and the priority updater in a real server: what is drawn how often."""

import numpy as np
import portpicker
import pytest
import reverb
import tensorflow as tf

from configs import prioritized_dqn
from replay import packing as packing_lib
from replay import priority_updater, routes, tables, trajectory_manager
from replay import writer as writer_lib

PACKING = packing_lib.Packing({"x": (np.dtype(np.int64), ())})
PRIORITIES = np.array([0.5, 1.0, 2.0, 4.0, 9.0])
EXPONENT = 0.6
SAMPLES = 20_000


def make_config(**replay):
  config = prioritized_dqn.get_config()
  config.replay.update(
    {
      "capacity": 5,
      "min_size": 5,
      "samples_per_insert": 0.0,  # no limit
      "priority_exponent": EXPONENT,
      **replay,
    }
  )
  return config


def serve(config):
  return trajectory_manager.TrajectoryManager(
    [tables.make_table(config, (PACKING.row_bytes,))],
    portpicker.pick_unused_port(),
  )


def write(address, start, priorities):
  """Items that hold start, start + 1, ..."""
  writer = writer_lib.ItemWriter(
    routes.DirectRoute(address), tables.TRANSITIONS
  )
  values = np.arange(start, start + len(priorities))
  assert writer.wait(timeout_s=20)
  writer.write(PACKING.pack({"x": values}), np.asarray(priorities))
  assert writer.close(timeout_s=20)


def draw(address, count):
  """Infos and values of `count` samples, drawn from now on."""
  items = reverb.TrajectoryDataset(
      address, tables.TRANSITIONS, tf.uint8,
      tf.TensorShape([PACKING.row_bytes]), 200,
  )  # fmt: skip
  sample = next(iter(items.batch(count)))
  return sample.info, PACKING.unpack(sample.data.numpy())["x"]


def assert_frequencies(values, expected):
  """Counts lie within five standard deviations of a binomial."""
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
  manager = serve(make_config())
  write(manager.address, 0, PRIORITIES)
  yield manager
  manager.close()


def test_prioritized_table_draws_in_proportion(prioritized):
  info, values = draw(prioritized.address, SAMPLES)
  expected = in_proportion(PRIORITIES)
  np.testing.assert_allclose(info.probability, expected[values])
  np.testing.assert_array_equal(info.table_size, np.full(SAMPLES, 5))
  assert_frequencies(values, expected)


def test_uniform_table_draws_equally():
  manager = serve(make_config(sampler="uniform"))
  write(manager.address, 0, PRIORITIES)
  info, values = draw(manager.address, SAMPLES)
  np.testing.assert_allclose(info.probability, np.full(SAMPLES, 0.2))
  assert_frequencies(values, np.full(5, 0.2))
  manager.close()


def test_updated_priorities_take_effect_inside_a_graph(prioritized):
  info, values = draw(prioritized.address, 1_000)
  _, index = np.unique(values, return_index=True)
  keys = info.key.numpy()[index]  # of items 0 to 4
  updater = priority_updater.PriorityUpdater(
    prioritized.address, tables.TRANSITIONS
  )
  gone = 12345  # as if evicted

  @tf.function
  def update(keys, priorities):
    updater.update(keys, priorities)

  three = np.array([keys[0], gone, keys[4]], np.uint64)
  update(tf.constant(three), tf.constant([8.0, 7.0, 0.25]))
  expected = in_proportion([8, 1, 2, 4, 0.25])
  info, values = draw(prioritized.address, SAMPLES)
  np.testing.assert_allclose(info.probability, expected[values])
  assert_frequencies(values, expected)
  update(tf.constant(keys), tf.constant(PRIORITIES))
  info, values = draw(prioritized.address, 1_000)
  np.testing.assert_allclose(
    info.probability, in_proportion(PRIORITIES)[values]
  )


def test_update_that_is_no_number_is_an_error_and_changes_nothing(prioritized):
  info, _ = draw(prioritized.address, 100)
  updater = priority_updater.PriorityUpdater(
    prioritized.address, tables.TRANSITIONS
  )
  with pytest.raises(tf.errors.InvalidArgumentError, match="not be NaN"):
    updater.update(info.key[:1], tf.constant([np.nan]))
  info, values = draw(prioritized.address, 100)
  np.testing.assert_allclose(
    info.probability, in_proportion(PRIORITIES)[values]
  )


def test_oldest_is_evicted_first():
  manager = serve(make_config(sampler="uniform"))
  write(manager.address, 0, np.ones(7))
  _, values = draw(manager.address, 1_000)
  assert set(values.tolist()) == {2, 3, 4, 5, 6}
  manager.close()


@pytest.mark.parametrize("preset", ["cartpole", "lunarlander", "pong"])
def test_table_of_each_preset(preset):
  config = prioritized_dqn.get_config(preset)
  info = tables.make_table(config, (PACKING.row_bytes,)).info
  assert info.name == tables.TRANSITIONS
  assert info.max_size == config.replay.capacity
  assert info.sampler_options.prioritized.priority_exponent == pytest.approx(
    config.replay.priority_exponent
  )
  assert info.remover_options.fifo
  assert info.signature == tf.TensorSpec([8], tf.uint8)
  limiter = info.rate_limiter_info
  assert limiter.min_size_to_sample == config.replay.min_size
  assert limiter.samples_per_insert == config.replay.samples_per_insert
  middle = config.replay.min_size * config.replay.samples_per_insert
  drift = config.replay.tolerance * middle
  assert limiter.min_diff == pytest.approx(middle - drift)
  assert limiter.max_diff == pytest.approx(middle + drift)


def test_without_ratio_only_the_minimum_limits():
  info = tables.make_table(make_config(min_size=3), (PACKING.row_bytes,)).info
  assert info.rate_limiter_info.min_size_to_sample == 3
  assert info.rate_limiter_info.max_diff > 1e30


@pytest.mark.parametrize("ratio", [0.01, 0.5, 1.0, 8.0, 100.0])
@pytest.mark.parametrize("tolerance", [1e-6, 0.5, 10.0])
@pytest.mark.parametrize("min_size", [1, 1_000])
def test_no_valid_config_is_refused_by_reverb(ratio, tolerance, min_size):
  config = make_config(
    samples_per_insert=ratio,
    tolerance=tolerance,
    min_size=min_size,
    capacity=1_000,
  )
  limiter = tables.make_table(
    config, (PACKING.row_bytes,)
  ).info.rate_limiter_info
  # An insert and a sample always fit between the two ends.
  assert limiter.max_diff - limiter.min_diff >= 2 * max(1.0, ratio)
