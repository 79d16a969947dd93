"""Tests of Packing: round trips in NumPy and in the dataset's TensorFlow."""

import numpy as np
import pytest
import tensorflow as tf
from acme import specs

from slipway.replay.items import packing as packing_lib
from slipway.replay.items import transitions, unpacking
from tests.environments import given

DTYPES = (
  np.float32, np.uint8, np.int32, np.bool_, np.float64, np.int8, np.int64,
)  # fmt: skip
SHAPES = ((), (3,), (4, 84, 84))


def random_batch(fields, size, seed=0):
  """Returns random fields; integers are from the whole range of their dtype."""
  random = np.random.default_rng(seed)
  batch = {}
  for name, (dtype, shape) in fields.items():
    if dtype.kind == "b":
      batch[name] = random.random((size, *shape)) < 0.5
    elif dtype.kind == "f":
      batch[name] = random.normal(size=(size, *shape)).astype(dtype)
    else:
      info = np.iinfo(dtype)
      batch[name] = random.integers(
        info.min, info.max, (size, *shape), dtype, endpoint=True
      )
  return batch


def all_fields():
  return {
    f"{np.dtype(dtype)}{shape}": (np.dtype(dtype), shape)
    for dtype in DTYPES
    for shape in SHAPES
  }


def assert_equal(found, expected):
  assert list(found) == list(expected)
  for name, array in expected.items():
    assert found[name].dtype == array.dtype, name
    np.testing.assert_array_equal(found[name], array, err_msg=name)


@pytest.mark.parametrize("size", [0, 1, 3])
def test_round_trip_in_numpy_and_tensorflow(size):
  packing = packing_lib.Packing(all_fields())
  batch = random_batch(packing.fields, size, seed=size)
  records = packing.pack(batch)
  assert records.dtype == np.uint8
  assert records.shape == (size, packing.record_bytes)
  # A record has no padding.
  assert packing.record_bytes * size == sum(x.nbytes for x in batch.values())
  assert_equal(packing.unpack(records), batch)
  fields = unpacking.unpack_records(packing, tf.constant(records))
  assert_equal({name: x.numpy() for name, x in fields.items()}, batch)


@pytest.mark.parametrize(("multiple_of", "size"), [(1, 11), (8, 16), (11, 11)])
def test_zeros_follow_the_last_field(multiple_of, size):
  fields = {"a": (np.dtype(np.uint8), (3,)), "b": (np.dtype(np.float64), ())}
  packing = packing_lib.Packing(fields, multiple_of)
  batch = random_batch(fields, 4)
  records = packing.pack(batch)
  assert records.shape == (4, size)
  assert not records[:, 11:].any()
  assert_equal(packing.unpack(records), batch)


def test_unpacked_fields_share_memory():
  packing = packing_lib.Packing({"x": (np.dtype(np.float32), (3,))})
  records = packing.pack({"x": np.ones((2, 3), np.float32)})
  assert np.shares_memory(packing.unpack(records)["x"], records)


def test_packing_converts_to_the_dtype_of_the_field():
  packing = packing_lib.Packing({"a": (np.dtype(np.int32), ())})
  records = packing.pack({"a": np.array([1, 2], np.int64)})
  np.testing.assert_array_equal(packing.unpack(records)["a"], [1, 2])


@pytest.mark.parametrize("dtype", ["O", "U3", "M8[s]", "c8"])
def test_dtype_without_plain_bytes_is_rejected(dtype):
  with pytest.raises(ValueError, match=r"field 'bad' has dtype .*numbers only"):
    packing_lib.Packing({"bad": (np.dtype(dtype), ())})


def test_transition_schema_follows_the_spec():
  actions = specs.BoundedArray((2,), np.float32, -1, 1)
  spec = given.spec_of((4, 84, 84), np.uint8, actions)
  schema = transitions.TransitionSchema(spec, n_step=3)
  assert schema.item_shape == (2 * 4 * 84 * 84 + 2 * 4 + 4 + 4 + 8,)
