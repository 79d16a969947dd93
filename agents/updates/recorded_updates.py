"""Updates on batches of data that was recorded before the run."""

import os

import ml_collections
import numpy as np
import tensorflow as tf
from acme import specs

from slipway.agents import core, recorded_items, seeds
from slipway.agents.updates import core as updates_core
from slipway.agents.updates import graph_loop
from slipway.replay.tables import table_status


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
    self._update = graph_loop.SampledUpdate(learner, table)
    size, count = table.batch_size, len(self._items)
    self._keys = np.zeros(size, np.uint64)
    self._probabilities = np.full(size, 1.0 / count)
    self._per_epoch = max(1, count // size)  # batches
    self._epoch, self._order = -1, np.arange(0)

  def run(self, updates: int) -> updates_core.LastUpdate | None:
    """Runs exactly `updates` updates, as items never run out."""
    last, begun = None, int(self._learner.steps)
    for step in range(begun, begun + updates):
      items = self._items[self._choose(step)]
      last, _ = self._update(
        self._keys, self._probabilities, len(self._items), items
      )
    return last

  def statuses(self) -> list[table_status.TableStatus]:
    """Returns an empty list: recorded data has no table."""
    return []

  def _choose(self, step: int) -> np.ndarray:
    """Returns the indices of the items of an update's batch."""
    epoch, index = divmod(step, self._per_epoch)
    size, count = len(self._keys), len(self._items)
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
