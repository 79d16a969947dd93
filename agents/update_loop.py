"""The learner's inner loop: sample, update, push priorities, many a call."""

from collections.abc import Callable, Sequence
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

  @classmethod
  def of(
    cls, names: Sequence[str], metrics: tf.Tensor, versions: tf.Tensor
  ) -> "LastUpdate":
    """Takes it out of tensors [M] and [B]."""
    values = metrics.numpy().tolist()
    return cls(dict(zip(names, values, strict=True)), versions.numpy())


class Outcome(NamedTuple):
  """Tensors of several updates, of B transitions and I items each."""

  keys: tf.Tensor  # [updates * I] uint64, of the items that were sampled
  priorities: tf.Tensor  # [updates * I] float32, their new ones
  metrics: tf.Tensor  # [M] float32, of the last update
  versions: tf.Tensor  # [B] int64, of its batch


class Updates:
  """Several updates in one graph: to be called where one is traced.

  Attributes:
    names: of the metrics, once traced.
  """

  def __init__(
    self,
    learner: core.Learner,
    unpack: Callable[[Any], dataset_lib.Batch] = lambda batch: batch,
  ):
    """Traces nothing yet.

    Args:
      learner: its `update` is traced.
      unpack: makes a batch of an element of the iterator.
    """
    self._learner, self._unpack = learner, unpack
    self.names: list[str] = []

  def __call__(
    self,
    iterator: tf.data.Iterator,
    updates: tf.Tensor,
    share: tf.Tensor | None = None,
  ) -> Outcome:
    """Samples and updates.

    Args:
      iterator: of what `unpack` takes.
      updates: [] int32.
      share: [] float32, of the batches (`dataset.Batch.share`).
    """

    def update(i, keys, new, metrics, versions):
      batch = self._unpack(next(iterator))
      if share is not None:
        batch = batch._replace(share=share)
      td_errors, named = self._learner.update(batch)
      self.names = list(named)
      return (
        i + 1,
        keys.write(i, batch.keys),
        new.write(i, _priorities(batch, td_errors)),
        metrics.write(i, tf.stack(list(named.values()))),
        versions.write(i, batch.versions),
      )

    dtypes = (tf.uint64, tf.float32, tf.float32, tf.int64)
    _, keys, new, metrics, versions = tf.while_loop(
      lambda i, *_: i < updates,
      update,
      (tf.constant(0), *(tf.TensorArray(dtype, updates) for dtype in dtypes)),
      parallel_iterations=1,  # an update needs the one before
    )
    return Outcome(
      keys.concat(),
      new.concat(),
      metrics.read(updates - 1),
      versions.read(updates - 1),
    )


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
    self._updates = Updates(learner, unpack)
    self._dataset = dataset
    self._updater = updater
    self._iterator: tf.data.Iterator | None = None
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
    return LastUpdate.of(self._updates.names, metrics, versions)

  def _run(
    self, iterator: tf.data.Iterator, updates: tf.Tensor
  ) -> tuple[tf.Tensor, tf.Tensor]:
    """Metrics [M] and versions [B] of the last of `updates` updates."""
    done = self._updates(iterator, updates)
    # All priorities of a call in one push, which costs the table's lock and a
    # call of gRPC each time. If the dataset starves, this call's are lost.
    if self._updater is not None:
      self._updater.update(done.keys, done.priorities)
    return done.metrics, done.versions


def _priorities(batch: dataset_lib.Batch, td_errors: tf.Tensor) -> tf.Tensor:
  """New ones of the batch's items."""
  items: Any = batch.keys.shape[0]
  return priorities.of_items(priorities.from_td_errors(td_errors), items)
