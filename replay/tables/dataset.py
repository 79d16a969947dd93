"""Dataset: batches of a table as a `tf.data.Dataset`."""

import math
import typing

import reverb
import tensorflow as tf

from slipway.replay.items import (
  frame_windows,
  frames,
  sequences,
  transitions,
)
from slipway.replay.items import packing as packing_lib
from slipway.replay.tables import table_spec, tables

# Milliseconds without an item after which the dataset ends, so that its reader
# can check whether to stop. The reader then iterates it again.
STARVED_MS = 500


class Batch(typing.NamedTuple):
  """A batch for a learner, and how it was sampled.

  Recorded data has the field `data` only.
  """

  data: typing.Any  # a Transition or Sequence with [B, ...] in each field
  # int64 [B] or [B, T]: versions of the variables that chose the actions.
  versions: typing.Any = None
  # uint64 [B / G]: keys of the sampled items, of G transitions each.
  keys: typing.Any = None
  probabilities: typing.Any = None  # float64 [B]: sampling probabilities
  table_size: typing.Any = None  # int64 [B]: items in the table when sampled
  # float32 []: items of this shard / items of the largest; None: one shard.
  share: tf.Tensor | None = None


def make_dataset(
  server_address: str, spec: table_spec.TableSpec
) -> tf.data.Dataset:
  """Returns a dataset for `unpack`, which ends only if it starves.

  The dataset samples ahead of its reader. So it is not suitable for a queue,
  where items that are sampled ahead are lost when the reader stops.

  Args:
    server_address: address of the Reverb server; a server in this process is
      read without gRPC, three times as fast.
    spec: spec of the table.
  """
  # One sampler is faster than the learner; more of them would hold more stale
  # samples and compete for the table's lock.
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
  # There is nothing to tune. The autotuning thread sometimes misses the end of
  # its iterator, which then waits for the thread for up to a minute.
  options.autotune.enabled = False
  batches = items.batch(spec.batch_size, drop_remainder=True).prefetch(2)
  return batches.with_options(options)


def unpack(schema: typing.Any, samples: typing.Any) -> Batch:
  """Returns the batch in an element of the dataset; part of the update's graph.

  As a `map` of the dataset it would cost the call of a graph per batch: an
  eighth of the CPU time of an update if the network is small.

  Args:
    schema: schema of an item.
    samples: `reverb.ReplaySample` of I = B / G items, with data uint8
      [I, *item_shape].
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
  """Returns the batch of sampled items, with the shapes in `Batch`.

  Args:
    schema: schema of an item.
    keys: [I] uint64, of the I = B / G items of a batch.
    probabilities: [I] float64.
    table_size: [I] int64.
    data: uint8 [I, *item_shape].
  """
  group_size = schema.transitions_per_item
  if group_size > 1:
    data = tf.reshape(data, (-1, schema.record.record_bytes))
    probabilities = tf.repeat(probabilities, group_size)
    table_size = tf.repeat(table_size, group_size)
  if isinstance(schema, sequences.SequenceSchema):
    fields = _fields(schema.record, data)
    if schema.windows is not None:
      del fields[frame_windows.FRAMES]
      numbers = fields.pop(frame_windows.NUMBERS)
      fields["observation"] = _window_observations(
        schema, schema.windows, data, numbers
      )
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
  """Returns the fields [B, ...] of transitions.

  Args:
    schema: schema of an item.
    data: uint8 [B, record_bytes]; with stacked frames [B, W, item bytes], the
      W frames of each item.
  """
  if not schema.stacked_frames:
    return _fields(schema.record, data)
  fields = _fields(schema.record, data[:, -1, schema.frame_bytes :])
  offsets = tf.cast(fields.pop(transitions.FRAME_OFFSET), tf.int32)
  fields["o_tm1"], fields["o_t"] = _stacks(schema, data, offsets)
  return fields


def _stacks(
  schema: transitions.TransitionSchema,
  frame_records: tf.Tensor,
  offsets: tf.Tensor,
) -> tuple[tf.Tensor, tf.Tensor]:
  """Returns o_tm1 and o_t of frame records [B, W, ...], `offsets` [B] apart."""
  stack, size = schema.stacked_frames, schema.frames_per_item
  records = tf.reshape(frame_records, (-1, schema.item_shape[1]))
  words = _words(records[:, : schema.frame_bytes], schema.frame_bytes)
  newest = size * tf.range(tf.shape(offsets)[0]) + size - 1  # [B]

  def stacks_until(newest: tf.Tensor) -> tf.Tensor:
    index = newest[:, None] + tf.range(1 - stack, 1)  # [B, S]
    taken = _take(words, index, schema.observation_shape)
    return tf.reshape(taken, (-1, *schema.observation_shape))

  return stacks_until(newest - offsets), stacks_until(newest)


def _window_observations(
  schema: sequences.SequenceSchema,
  windows: frame_windows.FrameWindows,
  records: tf.Tensor,
  frame_indices: tf.Tensor,
) -> tf.Tensor:
  """Returns the observations of windows whose frames are stored once each.

  Args:
    schema: schema of an item.
    windows: packing of its observations.
    records: uint8 [B, record_bytes], that begin with the frames.
    frame_indices: int32 [B, T + 1, S], the S frames of each observation, by
      their place in the record.

  Returns:
    uint8 [B, T + 1, S, ...].
  """
  # A record is seen as rows of a frame's size. The rows after its frames hold
  # other fields, and no index refers to them.
  size = windows.frame_bytes
  words = _words(tf.reshape(records, (-1, size)), size)
  rows = schema.record.record_bytes // size
  start = rows * tf.range(tf.shape(frame_indices)[0])  # [B]
  taken = _take(words, start[:, None, None] + frame_indices, windows.shape)
  return tf.reshape(taken, (-1, schema.steps + 1, *windows.shape))


def _words(frames_as_bytes: tf.Tensor, frame_bytes: int) -> tf.Tensor:
  """Returns frames, uint8 [M, frame_bytes], as int64 without the mask."""
  # With two dimensions and words of 8 bytes: more dimensions, or single bytes,
  # cost three times as much.
  words = tf.bitcast(
    tf.reshape(frames_as_bytes, (-1, frame_bytes // 8, 8)), tf.int64
  )
  return tf.bitwise.bitwise_xor(words, tf.constant(frames.MASK))


def _take(
  words: tf.Tensor, index: tf.Tensor, shape: tuple[int, ...]
) -> tf.Tensor:
  """Returns frames by their numbers.

  Args:
    words: int64 [M, frame_bytes / 8].
    index: int32 [...].
    shape: shape of an observation, [S, ...].

  Returns:
    uint8 [number of indices, bytes of a frame without its padding].
  """
  taken = tf.bitcast(tf.gather(words, tf.reshape(index, [-1])), tf.uint8)
  taken = tf.reshape(taken, (-1, frames.padded_bytes(shape)))
  return taken[:, : math.prod(shape[1:])]


def _fields(
  packing: packing_lib.Packing, records: tf.Tensor
) -> dict[str, tf.Tensor]:
  """Returns the fields [B, ...] of uint8 records [B, record_bytes]."""
  fields, start = {}, 0
  for name, (dtype, shape) in packing.fields.items():
    end = start + dtype.itemsize * math.prod(shape)
    column = records[:, start:end]
    start = end
    if dtype.itemsize == 1:
      column = tf.reshape(column, (-1, *shape))
      fields[name] = tf.cast(column, tf.as_dtype(dtype))
    else:
      column = tf.reshape(column, (-1, *shape, dtype.itemsize))
      fields[name] = tf.bitcast(column, tf.as_dtype(dtype))
  return fields
