"""Updates on batches of data that was recorded before the run."""

import functools
import os
import typing

import ml_collections
import numpy as np
import tensorflow as tf
from acme import specs

from slipway.agents import core, recorded_items, seeds
from slipway.agents.updates import core as updates_core
from slipway.agents.updates import graph_loop
from slipway.replay.tables import dataset as dataset_lib
from slipway.replay.tables import table_status

# Largest size in bytes of the batches of one call of the graph.
_CALL_BYTES = 1 << 24


class RecordedUpdates(updates_core.Updates):
  """Runs updates on items of recorded episodes; see `Updates`.

  Each item is in one batch per epoch, in a new random order. The run's seed and
  the learner's step count determine each batch, so a resumed run continues with
  the same batches.
  """

  def __init__(
    self,
    learner: core.Learner,
    config: ml_collections.ConfigDict,
    spec: specs.EnvironmentSpec,
    builder: core.Builder,
    folder: str | os.PathLike[str],
  ):
    """Makes the items of all episodes of `config.dataset.path`.

    Args:
      folder: folder on a disk that holds the items.

    Raises:
      ValueError: see `recorded_items.collect`.
    """
    table, self._items = recorded_items.collect(config, spec, builder, folder)
    self._learner, self._seed = learner, config.seed
    self._table, self._loop = table, graph_loop.GraphLoop(learner, table)
    self._size = table.batch_size
    self._per_epoch = max(1, len(self._items) // self._size)  # batches
    self._per_call = max(1, _CALL_BYTES // (self._size * self._items.shape[1]))
    self._epoch, self._order = -1, np.arange(0)

  def run(self, updates: int) -> updates_core.LastUpdate | None:
    """Runs exactly `updates` updates, as items never run out."""
    done, begun = None, int(self._learner.steps)
    end = begun + updates
    for first in range(begun, end, self._per_call):
      steps = range(first, min(first + self._per_call, end))
      items = self._items[np.concatenate([self._choose(x) for x in steps])]
      shape = (len(steps), self._size, *self._table.schema.item_shape)
      done = self._function(tf.constant(items.reshape(shape)))
    return done and graph_loop.make_last_update(
      self._loop.names, done.metrics, None
    )

  def statuses(self) -> list[table_status.TableStatus]:
    """Returns an empty list: recorded data has no table."""
    return []

  @functools.cached_property
  def _function(self) -> typing.Any:
    """The traced graph of `_update`, a concrete function."""
    shape = [None, self._size, *self._table.schema.item_shape]
    # Without AutoGraph, which would slowly rewrite all functions called.
    return tf.function(self._update, autograph=False).get_concrete_function(
      tf.TensorSpec(shape, tf.uint8)
    )

  def _update(self, items: tf.Tensor) -> graph_loop.Outcome:
    """Runs an update on each of U batches, uint8 [U, I, *item_shape]."""
    schema, count = self._table.schema, len(self._items)
    elements = self._size * schema.transitions_per_item  # B
    # All batches are unpacked together, which takes fewer operations.
    shape = schema.item_shape[schema.transitions_per_item > 1 :]
    parts = tf.nest.map_structure(  # None: the items lack this field
      lambda x: x if x is None else tf.reshape(x, (-1, elements, *x.shape[1:])),
      schema.unpack(tf.reshape(items, (-1, *shape))),
    )
    described = (
      tf.zeros(self._size, tf.uint64),
      tf.fill([elements], tf.constant(1.0 / count, tf.float64)),
      tf.fill([elements], tf.constant(count, tf.int64)),
    )

    def take(i: tf.Tensor) -> dataset_lib.Batch:
      data, versions = tf.nest.map_structure(
        lambda x: x if x is None else x[i], parts
      )
      return dataset_lib.Batch(data, versions, *described)

    return self._loop.run(take, tf.shape(items)[0])

  def _choose(self, step: int) -> np.ndarray:
    """Returns the indices of the items of an update's batch."""
    epoch, index = divmod(step, self._per_epoch)
    size, count = self._size, len(self._items)
    if epoch != self._epoch:
      random = np.random.default_rng((self._seed, epoch))
      self._epoch = epoch
      # Fewer items than a batch has are repeated.
      self._order = random.permutation(max(count, size)) % count
    return self._order[index * size : (index + 1) * size]


def make_sampler(
  learner: core.Learner,
  config: ml_collections.ConfigDict,
  spec: specs.EnvironmentSpec,
  builder: core.Builder,
  count: int,
  folder: str | os.PathLike[str],
) -> graph_loop.SampleRecorded:
  """Makes the function that samples recorded items uniformly.

  The run's seed and the learner's step count determine the items, so a resumed
  run continues with the same ones.

  Args:
    count: items per update; 0: the function returns None.
    folder: folder on a disk for the items, before they are in memory.

  Raises:
    ValueError: see `recorded_items.collect`.
  """
  if not count:
    return lambda: None
  table, found = recorded_items.collect(config, spec, builder, folder)
  # The memory of a GPU may be too small for them.
  with tf.device("CPU:0"):
    items = tf.constant(found.reshape(-1, *table.schema.item_shape))
  seed = seeds.for_table(config.seed)

  def sample() -> tf.Tensor:
    """Returns the items of the learner's next update."""
    with tf.device("CPU:0"):
      chosen = tf.random.stateless_uniform(
        [count],
        tf.stack([tf.constant(seed, tf.int64), learner.steps]),
        maxval=len(found),
        dtype=tf.int64,
      )
      return tf.gather(items, chosen)

  return sample
