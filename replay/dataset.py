"""The dataset: batches of a table, as tf.data."""

import math
import typing

import reverb
import tensorflow as tf

from replay import packing as packing_lib
from replay import transitions

# How long a starved dataset waits before it ends, so that its reader can look
# whether it should stop; it is then simply iterated again.
STARVED_MS = 500


class Batch(typing.NamedTuple):
  """Sampled transitions, and what is needed to weigh and update them."""

  keys: tf.Tensor  # [B] uint64
  probabilities: tf.Tensor  # [B] float64, with which each was drawn
  table_size: tf.Tensor  # [B] int64, items in the table at that time
  versions: tf.Tensor  # [B] int64, of the variables that chose the actions
  transitions: transitions.Transition  # [B, ...] in each field


def make_dataset(
  server_address: str,
  table: str,
  packing: packing_lib.Packing,
  batch_size: int,
) -> tf.data.Dataset:
  """An endless dataset for `unpack`, which ends where it starves.

  Args:
    server_address: of the Reverb server; one in this process is read without
      gRPC, at thrice the speed.
    table: its name.
    packing: layout of an item.
    batch_size: transitions a batch.
  """
  # One sampler keeps ahead of the learner; more of them hold more stale
  # samples and fight for the table's lock.
  items = reverb.TrajectoryDataset(
    server_address=server_address,
    table=table,
    dtypes=tf.uint8,
    shapes=tf.TensorShape([packing.row_bytes]),
    max_in_flight_samples_per_worker=2 * batch_size,
    num_workers_per_iterator=1,
    rate_limiter_timeout_ms=STARVED_MS,
  )

  return items.batch(batch_size, drop_remainder=True).prefetch(2)


def unpack(packing: packing_lib.Packing, samples: typing.Any) -> Batch:
  """The batch in an element of the dataset; to be traced where it is used.

  As a `map` of the dataset it would cost the call of a graph for each batch:
  an eighth of the CPU time of an update, where the network is small.

  Args:
    packing: layout of an item.
    samples: `reverb.ReplaySample` with data uint8 [B, row_bytes].
  """
  fields = _fields(packing, samples.data)
  return Batch(
    keys=samples.info.key,
    probabilities=samples.info.probability,
    table_size=samples.info.table_size,
    versions=fields.pop(transitions.VERSION),
    transitions=transitions.Transition(**fields),
  )


def _fields(
  packing: packing_lib.Packing, rows: tf.Tensor
) -> dict[str, tf.Tensor]:
  """The fields [B, ...] of uint8 rows [B, row_bytes]."""
  fields, start = {}, 0
  for name, (dtype, shape) in packing.fields.items():
    end = start + dtype.itemsize * math.prod(shape)
    column = rows[:, start:end]
    start = end
    if dtype.itemsize == 1:
      column = tf.reshape(column, (-1, *shape))
      fields[name] = tf.cast(column, tf.as_dtype(dtype))
    else:
      column = tf.reshape(column, (-1, *shape, dtype.itemsize))
      fields[name] = tf.bitcast(column, tf.as_dtype(dtype))
  return fields
