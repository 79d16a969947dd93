"""Updates in a TensorFlow graph, on batches of a dataset or on arrays."""

import functools
import typing
from collections.abc import Callable, Mapping

import numpy as np
import tensorflow as tf

from slipway.agents import core
from slipway.agents.updates import core as updates_core
from slipway.replay.items import priorities as priorities_lib
from slipway.replay.tables import dataset as dataset_lib
from slipway.replay.tables import table_spec


class Outcome(typing.NamedTuple):
  """Results of a `GraphLoop`, which ran U updates on batches of I items each.

  Attributes:
    metrics: float32 [M], the M metrics of the last update.
    versions: int64 [B, ...], versions of the variables that chose the actions
      of the last update's batch.
    keys: uint64 [U * I], keys of all sampled items, or None if the table has no
      priorities.
    priorities: float32 [U * I], new priorities of these items, or None.
  """

  metrics: tf.Tensor
  versions: tf.Tensor
  keys: tf.Tensor | None
  priorities: tf.Tensor | None


# Function that samples the recorded items of an update, uint8 [R, *item_shape],
# in its graph; None: there are none.
SampleRecorded = Callable[[], tf.Tensor | None]


class GraphLoop:
  """Runs several updates in one call of a graph.

  Instances are callable, and must be called within a `tf.function`.

  A Python loop would call TensorFlow's runtime for each batch and each update.
  For small networks such a call costs more than the update itself
  (benchmarks/results/libraries.md).

  Attributes:
    names: names of the metrics in `Outcome.metrics`, which tracing sets.
  """

  def __init__(
    self,
    learner: core.Learner,
    spec: table_spec.TableSpec,
    sample_recorded: SampleRecorded = lambda: None,
  ):
    """Makes the loop; the first call traces the graph."""
    self._learner, self._spec = learner, spec
    self._sample_recorded = sample_recorded
    self.names: list[str] = []

  def __call__(
    self,
    iterator: tf.data.Iterator,
    updates: tf.Tensor,
    shard_weight: tf.Tensor,
  ) -> Outcome:
    """Runs updates, each on the next batch of an iterator."""

    def take(_: tf.Tensor) -> dataset_lib.Batch:
      batch = dataset_lib.unpack(
        self._spec.schema, next(iterator), self._sample_recorded()
      )
      return batch._replace(shard_weight=shard_weight)

    return self.run(take, updates)

  def run(
    self,
    take: Callable[[tf.Tensor], dataset_lib.Batch],
    updates: tf.Tensor,
  ) -> Outcome:
    """Runs updates, each on the batch that a function returns for its number.

    Args:
      take: function of an update's number in this call, int32 [], which is
        traced once.
    """
    prioritized = self._spec.prioritized

    def update(i, metrics, versions, *pushed):
      """Runs update i, and writes its results to the tensor arrays."""
      batch = take(i)
      done = self._learner.update(batch)
      self.names = list(done.metrics)
      if prioritized:
        keys, new = pushed
        of_table = batch.take_from_table(done.priorities)
        items = batch.keys.shape[0]
        pushed = (
          keys.write(i, tf.bitcast(batch.keys, tf.int64)),
          new.write(i, priorities_lib.mean_per_item(of_table, items)),
        )
      return (
        i + 1,
        metrics.write(i, stack_metrics(done.metrics)),
        versions.write(i, batch.versions),
        *pushed,
      )

    # GPUs have no TensorArray of uint64, so keys are int64 meanwhile.
    dtypes = (tf.float32, tf.int64, *(tf.int64, tf.float32) * prioritized)
    _, metrics, versions, *pushed = tf.while_loop(
      lambda i, *_: i < updates,
      update,
      (tf.constant(0), *(tf.TensorArray(dtype, updates) for dtype in dtypes)),
      parallel_iterations=1,  # each update needs the one before
    )
    keys = new = None
    if pushed:
      keys = tf.bitcast(pushed[0].concat(), tf.uint64)
      new = pushed[1].concat()
    return Outcome(
      metrics.read(updates - 1), versions.read(updates - 1), keys, new
    )


class SampledUpdate:
  """Runs one update per call, on items that the caller has sampled."""

  def __init__(
    self,
    learner: core.Learner,
    spec: table_spec.TableSpec,
    sample_recorded: SampleRecorded = lambda: None,
  ):
    """Makes the update; `trace` or the first call traces the graph."""
    self._learner, self._spec = learner, spec
    self._sample_recorded = sample_recorded
    self._names: list[str] = []

  def trace(self) -> None:
    """Traces the update's graph in about a second, if it is not traced yet."""
    self._function  # noqa: B018

  def __call__(
    self,
    keys: np.ndarray,
    probabilities: np.ndarray,
    table_size: int,
    data: np.ndarray,
  ) -> tuple[updates_core.LastUpdate, np.ndarray | None]:
    """Runs one update on a batch of I items."""
    sizes = np.full(len(keys), table_size, np.int64)
    shape = (-1, *self._spec.schema.item_shape)
    metrics, versions, *new = self._function(
      tf.constant(keys),
      tf.constant(probabilities),
      tf.constant(sizes),
      tf.constant(data.reshape(shape)),
    )
    return (
      make_last_update(self._names, metrics, versions),
      new[0].numpy() if new else None,
    )

  @functools.cached_property
  def _function(self) -> typing.Any:
    """The traced graph of `_update`, a concrete function."""
    items = self._spec.batch_size
    # Without AutoGraph, which would slowly rewrite all functions called.
    return tf.function(self._update, autograph=False).get_concrete_function(
      tf.TensorSpec([items], tf.uint64),
      tf.TensorSpec([items], tf.float64),
      tf.TensorSpec([items], tf.int64),
      tf.TensorSpec([items, *self._spec.schema.item_shape], tf.uint8),
    )

  def _update(
    self,
    keys: tf.Tensor,
    probabilities: tf.Tensor,
    sizes: tf.Tensor,
    data: tf.Tensor,
  ) -> tuple[tf.Tensor, ...]:
    """Runs one update in the graph."""
    batch = dataset_lib.make_batch(
      *(self._spec.schema, keys, probabilities, sizes, data),
      self._sample_recorded(),
    )
    done = self._learner.update(batch)
    self._names = list(done.metrics)
    metrics = stack_metrics(done.metrics)
    if not self._spec.prioritized:
      return metrics, batch.versions
    new = batch.take_from_table(done.priorities)
    new = priorities_lib.mean_per_item(new, self._spec.batch_size)
    return metrics, batch.versions, new


def stack_metrics(metrics: Mapping[str, typing.Any]) -> tf.Tensor:
  """Returns the values of metrics, float32 [M], in the order of the mapping."""
  return tf.stack([tf.cast(value, tf.float32) for value in metrics.values()])


def make_last_update(
  names: list[str], metrics: tf.Tensor, versions: tf.Tensor | None
) -> updates_core.LastUpdate:
  """Converts the tensors of an update to a `LastUpdate`.

  Args:
    metrics: float32 [M], values of the metrics.
    versions: int64 [B, ...], versions of the batch, or None for recorded data.
  """
  values = metrics.numpy().tolist()
  return updates_core.LastUpdate(
    dict(zip(names, values, strict=True)),
    None if versions is None else versions.numpy(),
  )
