"""The dataset: batches of a table, as tf.data."""

import math
import typing

import reverb
import tensorflow as tf

from slipway.replay.items import frames, sequences, transitions
from slipway.replay.items import packing as packing_lib
from slipway.replay.tables import table_spec, tables

# How long a starved dataset waits before it ends, so that its reader can look
# whether it should stop; it is then simply iterated again.
STARVED_MS = 500
_WORD = tf.int64


class Batch(typing.NamedTuple):
  """What a learner learns from, and how it was sampled.

  Recorded data has nothing but `data`.
  """

  data: typing.Any  # a Transition or Sequence with [B, ...] in each field
  versions: typing.Any = None  # [B] or [B, T] int64, of the acting variables
  keys: typing.Any = None  # [I] uint64, of the items: I is B, or B / G
  probabilities: typing.Any = None  # [B] float64, with which each was sampled
  table_size: typing.Any = None  # [B] int64, items in the table at that time
  # [] float32, items of its shard to those of the largest; None: one table
  share: tf.Tensor | None = None


def make_dataset(
  server_address: str, spec: table_spec.TableSpec
) -> tf.data.Dataset:
  """An endless dataset for `unpack`, which ends where it starves.

  It samples ahead of its reader, so it is of no use for a queue, from which it
  would take items that nothing learns from.

  Args:
    server_address: of the Reverb server; one in this process is read without
      gRPC, at three times the speed.
    spec: of the table.
  """
  # One sampler keeps ahead of the learner; more of them hold more stale
  # samples and fight for the table's lock.
  items = reverb.TrajectoryDataset(
    server_address=server_address,
    table=tables.TRANSITIONS,
    dtypes=tf.uint8,
    shapes=tf.TensorShape(spec.schema.item_shape),
    max_in_flight_samples_per_worker=2 * spec.batch_size,
    num_workers_per_iterator=1,
    rate_limiter_timeout_ms=STARVED_MS,
  )
  options = tf.data.Options()
  # There is nothing to tune; and the thread that would, misses at times that
  # its iterator ends, which then waits for it: up to a minute.
  options.autotune.enabled = False
  batches = items.batch(spec.batch_size, drop_remainder=True).prefetch(2)
  return batches.with_options(options)


def unpack(schema: typing.Any, samples: typing.Any) -> Batch:
  """The batch in an element of the dataset; to be traced where it is used.

  As a `map` of the dataset it would cost the call of a graph for each batch:
  an eighth of the CPU time of an update, where the network is small.

  Args:
    schema: of an item.
    samples: `reverb.ReplaySample` with data uint8 [I, *item_shape].
  """
  info = samples.info
  return make_batch(
    schema, info.key, info.probability, info.table_size, samples.data
  )


def make_batch(
  schema: typing.Any,
  keys: tf.Tensor,
  probabilities: tf.Tensor,
  table_size: tf.Tensor,
  data: tf.Tensor,
) -> Batch:
  """The batch in what was sampled, as tensors of the shapes in `Batch`.

  Args:
    schema: of an item.
    keys: [I] uint64.
    probabilities: [I] float64.
    table_size: [I] int64.
    data: uint8 [I, *item_shape].
  """
  each = schema.transitions_per_item
  if each > 1:
    data = tf.reshape(data, (-1, schema.row.row_bytes))
    probabilities = tf.repeat(probabilities, each)
    table_size = tf.repeat(table_size, each)
  if isinstance(schema, sequences.SequenceSchema):
    fields = _fields(schema.row, data)
    versions = fields.pop(transitions.VERSION)
    learned: typing.Any = schema.make_sequence(fields)
  else:
    fields = _transition_fields(schema, data)
    versions = fields.pop(transitions.VERSION)
    learned = transitions.Transition(**fields)
  return Batch(learned, versions, keys, probabilities, table_size)


def _transition_fields(
  schema: transitions.TransitionSchema, data: tf.Tensor
) -> dict[str, tf.Tensor]:
  """The fields [B, ...] of transitions, from records or from frame stacks."""
  if not schema.stacked_frames:
    return _fields(schema.row, data)
  fields = _fields(schema.row, data[:, -1, schema.frame_bytes :])
  moved = tf.cast(fields.pop(transitions.MOVED), tf.int32)
  fields["o_tm1"], fields["o_t"] = _stacks(schema, data, moved)
  return fields


def _stacks(
  schema: transitions.TransitionSchema, cells: tf.Tensor, moved: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
  """o_tm1 and o_t of cells [B, W, ...] where they are `moved` [B] apart."""
  stack, window = schema.stacked_frames, schema.window
  # All in two dimensions, of 8 bytes: with more of them, or by the byte, the
  # same costs three times as much.
  rows = tf.reshape(cells, (-1, schema.item_shape[1]))[:, : schema.frame_bytes]
  words = tf.bitcast(tf.reshape(rows, (-1, schema.frame_bytes // 8, 8)), _WORD)
  words = tf.bitwise.bitwise_xor(words, tf.constant(frames.MASK))
  newest = window * tf.range(tf.shape(moved)[0]) + window - 1  # [B]

  def stacks_until(newest: tf.Tensor) -> tf.Tensor:
    index = newest[:, None] + tf.range(1 - stack, 1)  # [B, S]
    taken = tf.bitcast(tf.gather(words, tf.reshape(index, [-1])), tf.uint8)
    taken = tf.reshape(taken, (-1, schema.frame_bytes))
    size = math.prod(schema.observation_shape[1:])
    return tf.reshape(taken[:, :size], (-1, *schema.observation_shape))

  return stacks_until(newest - moved), stacks_until(newest)


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
