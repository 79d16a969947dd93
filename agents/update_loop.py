"""The learner's inner loop: sample, update, push priorities, many a call."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from agents import core
from replay import dataset as dataset_lib
from replay import priorities, priority_updater


class LastUpdate(NamedTuple):
  """What the last update of a call has to say."""

  metrics: dict[str, float]  # the learner's, by name
  versions: np.ndarray  # [B] int64, of the variables that made its batch


class UpdateLoop:
  """Runs several updates inside one `tf.function`.

  A Python loop pays for a call of TensorFlow's runtime with each batch, each
  update and each push of priorities: at small networks more than for the
  update itself (docs/libraries.md).
  """

  def __init__(
    self,
    learner: core.Learner,
    dataset: tf.data.Dataset,
    updater: priority_updater.PriorityUpdater | None,
    unpack: Callable[[Any], dataset_lib.Batch] = lambda batch: batch,
  ):
    """Traces nothing yet.

    Args:
      learner: its `update` is traced into the loop.
      dataset: of what `unpack` takes; may end where it starves.
      updater: where new priorities go; None: nowhere.
      unpack: makes a batch of an element of the dataset.
    """
    self._learner = learner
    self._dataset = dataset
    self._updater, self._unpack = updater, unpack
    self._iterator: tf.data.Iterator | None = None
    self._names: list[str] = []  # of the metrics, once traced
    # AutoGraph would rewrite the source of all that is called from here,
    # Sonnet's too: 1.7 of the 5 seconds in which a run started.
    self._graph = tf.function(self._run, autograph=False)

  def run(self, updates: int) -> LastUpdate | None:
    """Runs `updates` updates.

    Returns:
      The last one, or None if the dataset starved before the end: those done
      before are done, and `run` may be called again.
    """
    # Made anew only now: it would sample what nobody may want for a while.
    if self._iterator is None:
      self._iterator = iter(self._dataset)
    try:
      metrics, versions = self._graph(self._iterator, tf.constant(updates))
    except tf.errors.OutOfRangeError:
      self._iterator = None
      return None
    values = metrics.numpy().tolist()
    return LastUpdate(
      dict(zip(self._names, values, strict=True)), versions.numpy()
    )

  def _run(
    self, iterator: tf.data.Iterator, updates: tf.Tensor
  ) -> tuple[tf.Tensor, tf.Tensor]:
    """Metrics [M] and versions [B] of the last of `updates` updates."""

    def update(i, keys, new, metrics, versions):
      batch = self._unpack(next(iterator))
      td_errors, named = self._learner.update(batch)
      self._names = list(named)
      return (
        i + 1,
        keys.write(i, batch.keys),
        new.write(i, _priorities(batch, td_errors)),
        metrics.write(i, tf.stack(list(named.values()))),
        versions.write(i, batch.versions),
      )

    # All priorities of a call in one push, which costs the table's lock and a
    # call of gRPC each time. If the dataset starves, this call's are lost.
    dtypes = (tf.uint64, tf.float32, tf.float32, tf.int64)
    _, keys, new, metrics, versions = tf.while_loop(
      lambda i, *_: i < updates,
      update,
      (tf.constant(0), *(tf.TensorArray(dtype, updates) for dtype in dtypes)),
      parallel_iterations=1,  # an update needs the one before
    )
    if self._updater is not None:
      self._updater.update(keys.concat(), new.concat())
    return metrics.read(updates - 1), versions.read(updates - 1)


def _priorities(batch: dataset_lib.Batch, td_errors: tf.Tensor) -> tf.Tensor:
  """New ones of the batch's items."""
  items: Any = batch.keys.shape[0]
  return priorities.of_items(priorities.from_td_errors(td_errors), items)
