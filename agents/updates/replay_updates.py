"""Updates on batches sampled from one or more replay servers."""

import functools
from collections.abc import Sequence
from typing import Any

import tensorflow as tf
from absl import logging
from tensorflow.python.eager import cancellation

from slipway.agents import core, devices
from slipway.agents.updates import core as updates_core
from slipway.agents.updates import graph_loop, shard_weights
from slipway.replay.tables import dataset as dataset_lib
from slipway.replay.tables import limiter as limiter_lib
from slipway.replay.tables import (
  priority_pusher,
  shard_monitor,
  table_spec,
  table_status,
)

# Errors of a call on a dataset whose server is down, or that was cancelled
# because the monitor found the server down.
_SERVER_LOST_ERRORS = (
  tf.errors.CancelledError,
  tf.errors.UnavailableError,
  tf.errors.DeadlineExceededError,
  tf.errors.AbortedError,
)
# Time limit in seconds for `ReplayUpdates.close` to send queued priorities.
_CLOSE_S = 0.5


class ShardReader:
  """Samples batches from one replay server, and sends priorities to it.

  Attributes:
    monitor: monitor of the server.
    pusher: sends priorities to the server; None if the table has no priorities.
    may_run_out: whether the table may have too few batches for all updates of a
      call, so that its counts must be requested first.
  """

  def __init__(
    self, monitor: shard_monitor.ShardMonitor, spec: table_spec.TableSpec
  ):
    """Makes the priority pusher; the first `call` makes the dataset.

    Args:
      monitor: monitor of the server; cancels a call when the server is down.
    """
    self.monitor = monitor
    self.pusher = None
    if spec.prioritized:
      self.pusher = priority_pusher.PriorityPusher(monitor)
    self.may_run_out = True
    self._spec = spec
    self._iterator: tf.data.Iterator | None = None
    self._incarnation = 0  # incarnation of the server when `_iterator` was made
    self._cancellation = cancellation.CancellationManager()
    monitor.on_lost = self._cancel_calls

  def call(self, function: Any, *args: tf.Tensor) -> Any:
    """Calls a function on the iterator of the server's dataset.

    The monitor cancels the call if the server goes down. After a restart of the
    server, the call makes a new dataset first.

    Returns:
      The result of the function.

    Raises:
      tf.errors.OpError: one of `_SERVER_LOST_ERRORS` if the server is down, or
        OutOfRangeError if the server had no batch in time.
    """
    if self._iterator is None or self._incarnation != self.monitor.incarnation:
      self.drop()
      self._incarnation = self.monitor.incarnation
      self._cancellation = cancellation.CancellationManager()
      # The dataset is new, too. An old one keeps its gRPC channel, whose delay
      # between attempts to reconnect grows while the server is down.
      self._iterator = iter(self._make_dataset())
      # A loss just before has cancelled the former manager, and is not
      # announced again.
      if not self.monitor.up:
        raise tf.errors.UnavailableError(None, None, "the server is down")
    return self._cancellation.get_cancelable_function(function)(
      self._iterator, *args
    )

  def drop(self) -> None:
    """Discards prefetched batches; the next call makes a new dataset."""
    self._iterator = None

  @property
  def iterator_spec(self) -> Any:
    """Type of the dataset's iterator, for a traced function's signature."""
    return tf.data.IteratorSpec(self._make_dataset().element_spec)

  def _make_dataset(self) -> tf.data.Dataset:
    """Returns a new dataset of batches from the server."""
    return dataset_lib.make_dataset(
      self.monitor.address, self._spec, devices.find_gpu()
    )

  def _cancel_calls(self) -> None:
    """Cancels the running `call`, when the monitor finds the server down."""
    self._cancellation.start_cancel()


class ReplayUpdates(updates_core.Updates):
  """Runs updates on replay servers; see `Updates`.

  All updates of one `run` use batches of one server. Servers alternate from run
  to run; those that are down or have no batch are skipped. New priorities are
  sent to the server when its run ends. A server that goes down affects only its
  current run.
  """

  def __init__(
    self,
    learner: core.Learner,
    spec: table_spec.TableSpec,
    limiter: limiter_lib.Limiter,
    monitors: Sequence[shard_monitor.ShardMonitor],
  ):
    """Makes a reader per server; `trace` or the first update traces the graph.

    Args:
      limiter: limiter of each server's table.
    """
    self._loop = graph_loop.GraphLoop(learner, spec)
    self._spec, self._limiter = spec, limiter
    self._readers = [ShardReader(monitor, spec) for monitor in monitors]
    self._weights = shard_weights.ShardWeights(len(monitors))
    self._next = 0

  def trace(self) -> None:
    """Traces the graph of the updates; see `Updates`."""
    self._function  # noqa: B018

  def run(self, updates: int) -> updates_core.LastUpdate | None:
    """Runs at most `updates` updates on the next server that has batches."""
    for _ in self._readers:
      reader = self._readers[self._next]
      self._next = (self._next + 1) % len(self._readers)
      if allowed := self._count_allowed(reader, updates):
        return self._run_on(reader, allowed)
    return None

  def statuses(self) -> list[table_status.TableStatus]:
    """Returns the item counts of each table whose server is up."""
    return shard_monitor.statuses([reader.monitor for reader in self._readers])

  def close(self) -> None:
    """Closes datasets and priority pushers; the caller closes the monitors."""
    for reader in self._readers:
      reader.drop()
      if reader.pusher is not None:
        reader.pusher.close(_CLOSE_S)

  def _count_allowed(self, reader: ShardReader, updates: int) -> int:
    """Returns the number of updates, at most `updates`, that have batches."""
    if not reader.monitor.up:
      reader.drop()
      return 0
    if not reader.may_run_out:
      return updates
    # If the table ran out of items within a batch, the dataset would end, and
    # the items sampled for that batch would be lost.
    status = reader.monitor.status()
    allowed = 0
    if status is not None:
      allowed = self._limiter.samples_allowed(status) // self._spec.batch_size
    reader.may_run_out = allowed < updates
    return min(updates, allowed)

  def _run_on(
    self, reader: ShardReader, updates: int
  ) -> updates_core.LastUpdate | None:
    """Runs updates on batches of one server, and sends the new priorities."""
    shard, sizes = self._readers.index(reader), self._sizes()
    weight = self._weights.weight(shard, sizes)
    try:
      done = reader.call(
        self._function, tf.constant(updates), tf.constant(weight)
      )
    except tf.errors.OutOfRangeError:
      reader.drop()
      reader.may_run_out = True
      return None
    except _SERVER_LOST_ERRORS as error:
      name = type(error).__name__
      logging.info("replay server %d: %s", reader.monitor.index, name)
      reader.drop()
      reader.may_run_out = True
      reader.monitor.mark_lost()
      return None
    self._weights.record(shard, updates, sizes)
    if reader.pusher is not None:
      reader.pusher.push(done.keys.numpy(), done.priorities.numpy())
    return graph_loop.make_last_update(
      self._loop.names, done.metrics, done.versions
    )

  @functools.cached_property
  def _function(self) -> Any:
    """The traced graph of `GraphLoop`, a concrete function."""
    # Without AutoGraph, which would rewrite the source of all functions that
    # are called: that took 1.7 of the 5 seconds of a run's start.
    return tf.function(self._loop, autograph=False).get_concrete_function(
      self._readers[0].iterator_spec,
      tf.TensorSpec([], tf.int32),
      tf.TensorSpec([], tf.float32),
    )

  def _sizes(self) -> list[int]:
    """Returns each server's number of items; 0: it can't be sampled now."""
    return [
      monitor.size
      if monitor.up and monitor.size >= self._limiter.min_size
      else 0
      for monitor in (reader.monitor for reader in self._readers)
    ]
