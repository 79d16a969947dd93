"""The learner's inner loop: sample, update, push priorities, many a call."""

import tensorflow as tf

from agents import core
from replay import priorities, priority_updater


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
  ):
    """Traces nothing yet.

    Args:
      learner: its `update` is traced into the loop.
      dataset: of `replay.dataset.Batch`; may end where it starves.
      updater: where new priorities go; None: nowhere.
    """
    self._learner = learner
    self._dataset = dataset
    self._updater = updater
    self._iterator = iter(dataset)
    self._graph = tf.function(self._run)

  def run(self, updates: int) -> dict[str, float] | None:
    """Runs `updates` updates.

    Returns:
      The metrics of the last one, or None if the dataset starved before the
      end: those done before are done, and `run` may be called again.
    """
    try:
      metrics = self._graph(self._iterator, tf.constant(updates))
    except tf.errors.OutOfRangeError:
      self._iterator = iter(self._dataset)
      return None
    return {name: float(value) for name, value in metrics.items()}

  def _run(
    self, iterator: tf.data.Iterator, updates: tf.Tensor
  ) -> dict[str, tf.Tensor]:
    metrics = self._update(next(iterator))
    for _ in tf.range(updates - 1):
      metrics = self._update(next(iterator))
    return metrics

  def _update(self, batch) -> dict[str, tf.Tensor]:
    td_errors, metrics = self._learner.update(batch)
    if self._updater is not None:
      self._updater.update(batch.keys, priorities.from_td_errors(td_errors))
    return metrics
