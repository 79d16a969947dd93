"""Dataset: samples a Reverb table into batches for a learner."""

import typing

import reverb
import tensorflow as tf

from slipway.replay.tables import table_spec, tables

# Milliseconds without an item after which an iteration of the dataset ends. Its
# reader then checks whether to stop, and otherwise starts a new iteration.
STARVED_MS = 500


class Batch(typing.NamedTuple):
  """A batch of B transitions or sequences for a learner.

  Its last elements may be recorded. The others are from the table, and only
  they have versions, keys, probabilities and table sizes.

  Attributes:
    data: a `Transition` or `Sequence` with [B, ...] in each field.
    versions: versions of the variables that chose the actions, int64 [B] for
      transitions, [B, T] for sequences.
    keys: keys of the sampled items, uint64 [B / G] with G transitions per item.
    probabilities: probability of sampling each item, float64 [B].
    table_size: items in the table when each item was sampled, int64 [B].
    shard_weight: weight of the items of this shard, relative to the largest
      weight of a shard, float32 []; None: there is only one shard.
    recorded: number of recorded elements.
  """

  data: typing.Any
  versions: typing.Any = None
  keys: typing.Any = None
  probabilities: typing.Any = None
  table_size: typing.Any = None
  shard_weight: tf.Tensor | None = None
  recorded: int = 0

  def take_from_table(self, values: typing.Any) -> typing.Any:
    """Returns those of the values [B, ...] that belong to the table's items."""
    return values[: values.shape[0] - self.recorded]


def make_dataset(
  server_address: str, spec: table_spec.TableSpec, device: str | None = None
) -> tf.data.Dataset:
  """Returns a dataset of sampled batches, to be passed to `unpack`.

  An iteration ends if no item is sampled for `STARVED_MS`. The dataset samples
  ahead of its reader, so do not use it for a queue: items that were sampled
  ahead are lost when the reader stops.

  Args:
    server_address: address of the Reverb server; a server in this process is
      read without gRPC, three times as fast.
    device: name of the GPU to which batches are copied before their reader
      needs them; None: they stay in memory.

  Returns:
    Dataset of `reverb.ReplaySample`, with `spec.batch_size` items each.
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
  batches = batches.with_options(options)
  if device is None:
    return batches
  copy = tf.data.experimental.prefetch_to_device(device, buffer_size=1)
  return batches.apply(copy)


def unpack(
  schema: typing.Any, samples: typing.Any, recorded: tf.Tensor | None = None
) -> Batch:
  """Converts an element of the dataset to a `Batch`.

  Call it in the graph of the update. In `Dataset.map`, it would cost one more
  graph call per batch, an eighth of the CPU time of a small network's update.

  Args:
    samples: `reverb.ReplaySample` of I items of G transitions each (B = I * G),
      with data uint8 [I, *item_shape].
    recorded: as for `make_batch`.
  """
  info = samples.info
  return make_batch(
    schema, info.key, info.probability, info.table_size, samples.data, recorded
  )


def make_batch(
  schema: typing.Any,
  keys: tf.Tensor,
  probabilities: tf.Tensor,
  table_size: tf.Tensor,
  data: tf.Tensor,
  recorded: tf.Tensor | None = None,
) -> Batch:
  """Unpacks I sampled items to a `Batch`.

  A batch has B = I * G elements, with G transitions per item.

  Args:
    keys: keys of the items, uint64 [I].
    probabilities: probability of sampling each item, float64 [I].
    table_size: items in the table when each was sampled, int64 [I].
    data: bytes of the items, uint8 [I, *item_shape].
    recorded: bytes of recorded items, which are added, uint8 [R, *item_shape].
  """
  group_size, count = schema.transitions_per_item, 0
  if recorded is not None:
    count = group_size * recorded.shape[0]
    data = tf.concat([data, recorded], axis=0)
  if group_size > 1:
    data = tf.reshape(data, (-1, schema.record.record_bytes))
    probabilities = tf.repeat(probabilities, group_size)
    table_size = tf.repeat(table_size, group_size)
  learned, versions = schema.unpack(data)
  batch = Batch(learned, None, keys, probabilities, table_size, recorded=count)
  return batch._replace(versions=batch.take_from_table(versions))
