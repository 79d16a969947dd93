"""Updates on batches of data that was recorded before the run."""

import typing

import ml_collections
import numpy as np
import tensorflow as tf
from acme import specs

from slipway.agents import core, recorded_items
from slipway.agents.updates import core as updates_core
from slipway.agents.updates import graph_loop
from slipway.replay.tables import dataset as dataset_lib
from slipway.replay.tables import table_status


def make(
  learner: core.Learner,
  config: ml_collections.ConfigDict,
  spec: specs.EnvironmentSpec,
  builder: core.Builder,
) -> updates_core.Updates:
  """Makes the updates of a run without a table that workers write."""
  if builder.make_table(config, spec) is None:
    return RecordedUpdates(learner, builder.make_batches(config, spec))
  return RecordedItems(learner, config, spec, builder)


class RecordedUpdates(updates_core.Updates):
  """Runs updates on batches of recorded data; see `Updates`.

  The learner's step count determines the batch of each update.
  """

  def __init__(self, learner: core.Learner, batches: core.Batches):
    self._learner, self._batches = learner, batches
    self._names: list[str] = []  # of the metrics, known once traced
    # Without AutoGraph, which would slowly rewrite all functions called.
    self._function: typing.Any = tf.function(self._update, autograph=False)

  def run(self, updates: int) -> updates_core.LastUpdate | None:
    """Runs exactly `updates` updates, as batches never run out."""
    metrics = None
    for _ in range(updates):
      batch = self._batches.batch(int(self._learner.steps))
      metrics = self._function(tf.nest.map_structure(tf.constant, batch))
    if metrics is None:
      return None
    return graph_loop.make_last_update(self._names, metrics, None)

  def statuses(self) -> list[table_status.TableStatus]:
    """Returns an empty list: recorded data has no table."""
    return []

  def _update(self, data: typing.Any) -> tf.Tensor:
    """Runs one update in the graph."""
    done = self._learner.update(dataset_lib.Batch(data))
    self._names = list(done.metrics)
    return graph_loop.stack_metrics(done.metrics)


class RecordedItems(updates_core.Updates):
  """Runs updates on items that are sampled uniformly; see `Updates`.

  The run's seed and the learner's step count determine each batch, so a resumed
  run continues with the same batches.
  """

  def __init__(
    self,
    learner: core.Learner,
    config: ml_collections.ConfigDict,
    spec: specs.EnvironmentSpec,
    builder: core.Builder,
  ):
    """Makes the items of all episodes of `config.dataset.path`.

    Raises:
      ValueError: see `recorded_items.collect`.
    """
    table, self._items = recorded_items.collect(config, spec, builder)
    self._learner, self._seed = learner, config.seed
    self._update = graph_loop.SampledUpdate(learner, table)
    self._keys = np.zeros(table.batch_size, np.uint64)
    self._probabilities = np.full(table.batch_size, 1.0 / len(self._items))

  def run(self, updates: int) -> updates_core.LastUpdate | None:
    """Runs exactly `updates` updates, as items never run out."""
    last, size, begun = None, len(self._items), int(self._learner.steps)
    for step in range(begun, begun + updates):
      random = np.random.default_rng((self._seed, step))
      chosen = random.integers(size, size=len(self._keys))
      items = self._items[chosen]
      last, _ = self._update(self._keys, self._probabilities, size, items)
    return last

  def statuses(self) -> list[table_status.TableStatus]:
    """Returns an empty list: recorded data has no table."""
    return []
