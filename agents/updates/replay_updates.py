"""ReplayUpdates: on batches sampled from one or several replay servers."""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf
from absl import logging
from tensorflow.python.eager import cancellation

from slipway.agents import core
from slipway.agents.updates import core as updates_core
from slipway.agents.updates import graph_loop
from slipway.replay.tables import dataset as dataset_lib
from slipway.replay.tables import limiter as limiter_lib
from slipway.replay.tables import (
  priority_pusher,
  shard_monitor,
  table_spec,
  table_status,
)

# Errors of a dataset whose server is down, or whose call was cancelled.
_LOST = (
  tf.errors.CancelledError,
  tf.errors.UnavailableError,
  tf.errors.DeadlineExceededError,
  tf.errors.AbortedError,
)
_CLOSE_S = 0.5  # for priorities on their way


class ShardReader:
  """The dataset of one server, and the way of priorities back to it."""

  def __init__(
    self, monitor: shard_monitor.ShardMonitor, spec: table_spec.TableSpec
  ):
    """Opens nothing.

    Args:
      monitor: of the server; its loss ends a call that reads from it.
      spec: of the table.
    """
    self.monitor = monitor
    self.pusher = None
    if spec.prioritized:
      self.pusher = priority_pusher.PriorityPusher(monitor)
    self.starving = True  # the table may not have a whole call's batches
    self._spec = spec
    self._iterator: tf.data.Iterator | None = None
    self._incarnation = 0  # of the server, that the iterator is for
    self._calls = cancellation.CancellationManager()
    monitor.on_lost = self._cancel

  def call(self, function: Any, *args: tf.Tensor) -> Any:
    """Calls a concrete function, with the server's iterator first.

    Raises:
      tf.errors.OpError: one of `_LOST`, or the dataset's own.
    """
    if self._iterator is None or self._incarnation != self.monitor.incarnation:
      self.drop()
      self._incarnation = self.monitor.incarnation
      self._calls = cancellation.CancellationManager()
      # A new dataset, too: it keeps its connection, which would try a server
      # that was down again after longer and longer delays.
      self._iterator = iter(self._make_dataset())
    return self._calls.get_cancelable_function(function)(self._iterator, *args)

  def drop(self) -> None:
    """Drops the batches that were read ahead; the next call starts over."""
    self._iterator = None

  @property
  def iterator_spec(self) -> Any:
    """The type of the iterator, for tracing."""
    return tf.data.IteratorSpec(self._make_dataset().element_spec)

  def _make_dataset(self) -> tf.data.Dataset:
    return dataset_lib.make_dataset(self.monitor.address, self._spec)

  def _cancel(self) -> None:
    self._calls.start_cancel()


class ReplayUpdates:
  """Runs several updates a call, all on batches of one server.

  Servers alternate by the call: so a call reads from one server, whose
  priorities are pushed at once, and one that is lost costs no more than its own
  call. Each has the same part of all updates; the part of those that have no
  batches, or are down, goes to the others.
  """

  def __init__(
    self,
    learner: core.Learner,
    spec: table_spec.TableSpec,
    limiter: limiter_lib.Limiter,
    monitors: Sequence[shard_monitor.ShardMonitor],
  ):
    """Traces nothing yet.

    Args:
      learner: its `update` is traced into the loop.
      spec: of the table.
      limiter: of each server's table.
      monitors: one per server.
    """
    self._loop = graph_loop.GraphLoop(learner, spec)
    self._spec, self._limiter = spec, limiter
    self._readers = [ShardReader(monitor, spec) for monitor in monitors]
    self._next = 0
    self._function: Any = None  # traced at the first call

  def run(self, updates: int) -> updates_core.LastUpdate | None:
    """Runs updates on the next server that has batches; see `Updates`."""
    for _ in self._readers:
      reader = self._readers[self._next]
      self._next = (self._next + 1) % len(self._readers)
      if allowed := self._allowed(reader, updates):
        return self._run(reader, allowed)
    return None

  def statuses(self) -> list[table_status.TableStatus]:
    """Returns the counts of the tables that are up."""
    return shard_monitor.statuses([reader.monitor for reader in self._readers])

  def close(self) -> None:
    """Releases what is open; the monitors stay."""
    for reader in self._readers:
      reader.drop()
      if reader.pusher is not None:
        reader.pusher.close(_CLOSE_S)

  def _allowed(self, reader: ShardReader, updates: int) -> int:
    """Returns the updates that the server has batches for."""
    if not reader.monitor.up:
      reader.drop()
      return 0
    if not reader.starving:
      return updates
    # What a dataset has of a batch is lost where it ends for want of more.
    status = reader.monitor.status()
    allowed = 0
    if status is not None:
      counts = (status.size, status.inserted, status.sampled)
      allowed = self._limiter.samples_allowed(*counts) // self._spec.batch_size
    reader.starving = allowed < updates
    return min(updates, allowed)

  def _run(
    self, reader: ShardReader, updates: int
  ) -> updates_core.LastUpdate | None:
    if self._function is None:
      # AutoGraph would rewrite the source of everything that is called from
      # here, Sonnet's too: 1.7 of the 5 seconds in which a run started.
      graph = tf.function(self._loop, autograph=False)
      self._function = graph.get_concrete_function(
        reader.iterator_spec,
        tf.TensorSpec([], tf.int32),
        tf.TensorSpec([], tf.float32),
      )
    try:
      done = reader.call(
        self._function, tf.constant(updates), tf.constant(self._share(reader))
      )
    except tf.errors.OutOfRangeError:
      reader.drop()
      reader.starving = True
      return None
    except _LOST as error:
      name = type(error).__name__
      logging.info("replay server %d: %s", reader.monitor.index, name)
      reader.drop()
      reader.starving = True
      reader.monitor.mark_lost()
      return None
    if reader.pusher is not None:
      reader.pusher.push(done.keys.numpy(), done.priorities.numpy())
    return graph_loop.make_last_update(
      self._loop.names, done.metrics, done.versions
    )

  def _share(self, reader: ShardReader) -> float:
    """Returns a server's items, as a part of those of the largest."""
    monitors = [other.monitor for other in self._readers if other.monitor.up]
    size = reader.monitor.size
    return size / max(1, size, *(monitor.size for monitor in monitors))
