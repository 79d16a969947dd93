"""Replay updates: runs updates on batches from one or more replay servers."""

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
_CLOSE_S = 0.5  # time limit to send queued priorities


class ShardReader:
  """Reads batches from one server, and sends priorities back to it."""

  def __init__(
    self, monitor: shard_monitor.ShardMonitor, spec: table_spec.TableSpec
  ):
    """Makes the pusher; the dataset is made at the first call.

    Args:
      monitor: monitor of the server; cancels a call when the server is down.
      spec: spec of the table.
    """
    self.monitor = monitor
    self.pusher = None
    if spec.prioritized:
      self.pusher = priority_pusher.PriorityPusher(monitor)
    self.may_run_out = (
      True  # whether a call could need more batches than there are
    )
    self._spec = spec
    self._iterator: tf.data.Iterator | None = None
    self._incarnation = 0  # of the server that the iterator reads from
    self._calls = cancellation.CancellationManager()
    monitor.on_lost = self._cancel

  def call(self, function: Any, *args: tf.Tensor) -> Any:
    """Calls a concrete function; its first argument is the server's iterator.

    Raises:
      tf.errors.OpError: the server is down (one of `_LOST`), or the dataset
        has failed.
    """
    if self._iterator is None or self._incarnation != self.monitor.incarnation:
      self.drop()
      self._incarnation = self.monitor.incarnation
      self._calls = cancellation.CancellationManager()
      # A new dataset, too: the connection of the old one waits longer after
      # each failed attempt, so it would reach a restarted server late.
      self._iterator = iter(self._make_dataset())
    return self._calls.get_cancelable_function(function)(self._iterator, *args)

  def drop(self) -> None:
    """Drops prefetched batches; the next call makes a new dataset."""
    self._iterator = None

  @property
  def iterator_spec(self) -> Any:
    """Type of the iterator, for tracing."""
    return tf.data.IteratorSpec(self._make_dataset().element_spec)

  def _make_dataset(self) -> tf.data.Dataset:
    return dataset_lib.make_dataset(self.monitor.address, self._spec)

  def _cancel(self) -> None:
    self._calls.start_cancel()


class ReplayUpdates:
  """Runs several updates per call, all on batches of one server.

  Servers alternate from call to call, so each gets the same number of updates.
  The priorities of a call are pushed to its server at once, and a server that
  goes down affects only its own call. Servers that are down or have no batch
  are skipped.
  """

  def __init__(
    self,
    learner: core.Learner,
    spec: table_spec.TableSpec,
    limiter: limiter_lib.Limiter,
    monitors: Sequence[shard_monitor.ShardMonitor],
  ):
    """Makes the readers; traces at the first update.

    Args:
      learner: the learner whose `update` is traced.
      spec: spec of the table.
      limiter: limiter of each server's table.
      monitors: monitors of the servers.
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
    """Closes the readers; the caller closes the monitors."""
    for reader in self._readers:
      reader.drop()
      if reader.pusher is not None:
        reader.pusher.close(_CLOSE_S)

  def _allowed(self, reader: ShardReader, updates: int) -> int:
    """Returns the number of updates for which the server has batches."""
    if not reader.monitor.up:
      reader.drop()
      return 0
    if not reader.may_run_out:
      return updates
    # An incomplete batch is lost if the dataset ends for lack of items.
    status = reader.monitor.status()
    allowed = 0
    if status is not None:
      counts = (status.size, status.inserted, status.sampled)
      allowed = self._limiter.samples_allowed(*counts) // self._spec.batch_size
    reader.may_run_out = allowed < updates
    return min(updates, allowed)

  def _run(
    self, reader: ShardReader, updates: int
  ) -> updates_core.LastUpdate | None:
    if self._function is None:
      # AutoGraph would rewrite the source of all functions that are called,
      # also Sonnet's: 1.7 of the 5 seconds of a run's start.
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
      reader.may_run_out = True
      return None
    except _LOST as error:
      name = type(error).__name__
      logging.info("replay server %d: %s", reader.monitor.index, name)
      reader.drop()
      reader.may_run_out = True
      reader.monitor.mark_lost()
      return None
    if reader.pusher is not None:
      reader.pusher.push(done.keys.numpy(), done.priorities.numpy())
    return graph_loop.make_last_update(
      self._loop.names, done.metrics, done.versions
    )

  def _share(self, reader: ShardReader) -> float:
    """Returns the items of a server / the items of the largest one."""
    monitors = [other.monitor for other in self._readers if other.monitor.up]
    size = reader.monitor.size
    return size / max(1, size, *(monitor.size for monitor in monitors))
