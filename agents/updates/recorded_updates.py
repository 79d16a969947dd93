"""Updates on batches of data that was recorded before the run."""

import typing

import tensorflow as tf

from slipway.agents import core
from slipway.agents.updates import core as updates_core
from slipway.agents.updates import graph_loop
from slipway.replay.tables import dataset as dataset_lib
from slipway.replay.tables import table_status


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
