"""Tests of the dataset with a real server: batches, and end if starved."""

import functools
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from slipway.replay.items import transitions
from slipway.replay.tables import dataset as dataset_lib
from slipway.replay.tables import tables
from tests.environments import given as environment
from tests.replay import given, served

SPEC = environment.spec_of((2, 5), np.uint8)
SCHEMA = transitions.TransitionSchema(SPEC, n_step=1)
BATCH = 8


def make_items(count, start=0):
  """Returns transitions whose rewards are the numbers from `start`."""
  random = np.random.default_rng(start)
  return {
    "o_tm1": random.integers(0, 256, (count, 2, 5), np.uint8),
    "a_tm1": random.integers(0, 3, count, np.int32),
    "r_t": np.arange(start, start + count, dtype=np.float32),
    "discount_t": random.random(count, np.float32),
    "o_t": random.integers(0, 256, (count, 2, 5), np.uint8),
    transitions.VERSION: 2**40 + np.arange(start, start + count) // 3,
  }


def make_spec(schema=SCHEMA, **fields):
  return given.make_table_spec(
    schema,
    prioritized=False,
    **{
      "capacity": 100,
      "batch_size": BATCH,
      "min_size": BATCH,
      "samples_per_insert": 0.0,
      **fields,
    },
  )


def write(manager, items):
  served.write(manager, SCHEMA.record.pack(items))


def make_dataset(manager):
  dataset = dataset_lib.make_dataset(manager.address, make_spec())
  unpack = functools.partial(dataset_lib.unpack, SCHEMA)
  return dataset.map(tf.autograph.experimental.do_not_convert(unpack))


@pytest.fixture(scope="module")
def filled():
  manager = served.serve(make_spec())
  write(manager, make_items(30))
  yield manager
  manager.close()


def test_batches_hold_what_was_written(filled):
  items, keys = make_items(30), {}
  for batch in make_dataset(filled).take(20):
    index = batch.data.r_t.numpy().astype(int)
    columns = {**batch.data._asdict(), transitions.VERSION: batch.versions}
    for name, array in items.items():
      found = columns[name].numpy()
      assert found.dtype == array.dtype
      np.testing.assert_array_equal(found, array[index], err_msg=name)
    np.testing.assert_allclose(batch.probabilities, np.full(BATCH, 1 / 30))
    np.testing.assert_array_equal(batch.table_size, np.full(BATCH, 30))
    for key, i in zip(batch.keys.numpy(), index, strict=True):
      assert keys.setdefault(i, key) == key, "an item keeps its key"
  assert len(set(keys.values())) == len(keys) > 20


# A second logical CPU stands for a GPU. It can only be made in a process whose
# TensorFlow has not computed yet.
_ON_A_DEVICE = """
import tensorflow as tf

(cpu,) = tf.config.list_physical_devices("CPU")
tf.config.set_logical_device_configuration(
  cpu, [tf.config.LogicalDeviceConfiguration()] * 2
)
from slipway.replay.tables import dataset
from tests.replay.tables import dataset_test as given

manager = given.served.serve(given.make_spec())
given.write(manager, given.make_items(30))
batches = dataset.make_dataset(manager.address, given.make_spec(), "/cpu:1")
items = given.make_items(30)
for samples, _ in zip(batches, range(3)):
  assert samples.data.device.endswith("CPU:1"), samples.data.device
  batch = dataset.unpack(given.SCHEMA, samples)
  index = batch.data.r_t.numpy().astype(int)
  assert (batch.data.o_tm1.numpy() == items["o_tm1"][index]).all()
"""


def test_batches_are_copied_to_a_device():
  done = subprocess.run(
    [sys.executable, "-c", _ON_A_DEVICE],
    capture_output=True,
    text=True,
    timeout=100,
    check=False,
  )
  assert done.returncode == 0, done.stderr


def test_dataset_ends_below_the_minimum_and_continues_above_it():
  manager = served.serve(make_spec())
  dataset = make_dataset(manager)
  write(manager, make_items(BATCH - 1))
  with pytest.raises(tf.errors.OutOfRangeError):
    iter(dataset).get_next()
  write(manager, make_items(1, start=BATCH - 1))
  batch = iter(dataset).get_next()
  assert set(batch.data.r_t.numpy()) <= set(range(BATCH))
  manager.close()


def test_dataset_ends_where_the_limiter_starves_it_and_continues():
  # The samples may be 4 ahead, and each insert allows 4 more.
  manager = served.serve(make_spec(samples_per_insert=4.0, tolerance=1e-6))
  dataset = make_dataset(manager)
  write(manager, make_items(BATCH))
  batches = 0
  with pytest.raises(tf.errors.OutOfRangeError):
    iterator = iter(dataset)
    while True:
      iterator.get_next()
      batches += 1
  sampled = manager.status(tables.TRANSITIONS).sampled
  assert batches * BATCH <= sampled
  # The dataset drops samples that do not fill a batch.
  assert sampled < (batches + 1) * BATCH
  write(manager, make_items(4, start=BATCH))
  iter(dataset).get_next()
  assert manager.status(tables.TRANSITIONS).sampled > sampled
  manager.close()


def test_items_of_several_transitions_become_batches_of_transitions():
  each, items = 4, make_items(40)
  schema = transitions.TransitionSchema(
    SPEC, n_step=1, transitions_per_item=each
  )
  spec = make_spec(
    schema, batch_size=BATCH // each, min_size=BATCH // each, capacity=25
  )
  manager = served.serve(spec)
  records = schema.record.pack(items).reshape(-1, *schema.item_shape)
  served.write(manager, records)
  dataset = dataset_lib.make_dataset(manager.address, spec)
  for samples in dataset.take(20):
    batch = dataset_lib.unpack(schema, samples)
    index = batch.data.r_t.numpy().astype(int)
    assert len(index) == BATCH
    np.testing.assert_array_equal(batch.data.o_t, items["o_t"][index])
    firsts = index[::each]
    assert (firsts % each == 0).all()
    expected = (firsts[:, None] + np.arange(each)).ravel()
    np.testing.assert_array_equal(index, expected)
    assert batch.keys.shape == BATCH // each
    np.testing.assert_allclose(batch.probabilities, np.full(BATCH, 1 / 10))
    np.testing.assert_array_equal(batch.table_size, np.full(BATCH, 10))
  manager.close()


def test_autotuning_is_disabled(filled):
  """A tuning thread of TensorFlow could delay the end of a starved iterator."""
  assert make_dataset(filled).options().autotune.enabled is False
