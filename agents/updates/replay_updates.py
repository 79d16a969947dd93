"""Updates on batches sampled from one or more replay servers."""

import functools
import math
import time
from collections.abc import Sequence
from typing import Any

import tensorflow as tf
from absl import logging

from slipway.agents import core, devices
from slipway.agents.updates import core as updates_core
from slipway.agents.updates import graph_loop, shard_weights
from slipway.replay.tables import dataset as dataset_lib
from slipway.replay.tables import limiter as limiter_lib
from slipway.replay.tables import (
  priority_pusher,
  table_spec,
  table_status,
  tables,
)

# Errors of a call on a dataset that has no batch in time, or whose server is
# too busy to reply. A server that has died ends the whole run.
_NO_BATCH_ERRORS = (
  tf.errors.OutOfRangeError,
  tf.errors.CancelledError,
  tf.errors.UnavailableError,
  tf.errors.DeadlineExceededError,
  tf.errors.AbortedError,
)
# Seconds between two polls of a table's size. Each poll takes the table's lock.
_SIZE_PERIOD_S = 1.0
# Time limit in seconds for `ReplayUpdates.close` to send queued priorities.
_CLOSE_S = 0.5


class ShardReader:
  """Samples batches from one replay server, and sends priorities to it.

  Attributes:
    pusher: sends priorities to the server; None if the table has no priorities.
    may_run_out: whether the table may have too few batches for all updates of a
      call, so that its counts must be requested first.
  """

  def __init__(self, address: str, spec: table_spec.TableSpec):
    """Makes the priority pusher; the first use of `iterator` the dataset.

    Args:
      address: 'host:port' of the server.
    """
    self.pusher = None
    if spec.prioritized:
      self.pusher = priority_pusher.PriorityPusher(address)
    self.may_run_out = True
    self._address, self._spec = address, spec
    self._view = tables.TableView(address)
    self._size, self._polled_at_s = 0, -math.inf
    self._iterator: tf.data.Iterator | None = None

  @property
  def iterator(self) -> tf.data.Iterator:
    """The iterator of the server's dataset, a new one after `drop`."""
    if self._iterator is None:
      self._iterator = iter(self._make_dataset())
    return self._iterator

  def drop(self) -> None:
    """Discards prefetched batches; the next use makes a new dataset."""
    self._iterator = None

  def status(self) -> table_status.TableStatus:
    """Polls the counts of the table.

    Raises:
      RuntimeError: the server does not reply.
    """
    status = self._view.status()
    self._size, self._polled_at_s = status.size, time.monotonic()
    return status

  @property
  def size(self) -> int:
    """Number of items in the table, at most a second old."""
    if time.monotonic() - self._polled_at_s >= _SIZE_PERIOD_S:
      self.status()
    return self._size

  @property
  def iterator_spec(self) -> Any:
    """Type of the dataset's iterator, for a traced function's signature."""
    return tf.data.IteratorSpec(self._make_dataset().element_spec)

  def _make_dataset(self) -> tf.data.Dataset:
    """Returns a new dataset of batches from the server."""
    return dataset_lib.make_dataset(
      self._address, self._spec, devices.find_gpu()
    )


class ReplayUpdates(updates_core.Updates):
  """Runs updates on replay servers; see `Updates`.

  All updates of one `run` use batches of one server. Servers alternate from run
  to run; those that have no batch are skipped. New priorities are sent to the
  server when its run ends.
  """

  def __init__(
    self,
    learner: core.Learner,
    spec: table_spec.TableSpec,
    limiter: limiter_lib.Limiter,
    servers: Sequence[str],
    sample_recorded: graph_loop.SampleRecorded = lambda: None,
  ):
    """Makes a reader per server; `trace` or the first update traces the graph.

    Args:
      learner: the learner whose `update` is traced.
      limiter: limiter of each server's table.
      servers: 'host:port' of each server.
      sample_recorded: function that samples the recorded items of a batch.
    """
    self._loop = graph_loop.GraphLoop(learner, spec, sample_recorded)
    self._spec, self._limiter = spec, limiter
    self._readers = [ShardReader(server, spec) for server in servers]
    self._weights = shard_weights.ShardWeights(len(servers))
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
    """Returns the item counts of each table."""
    return [reader.status() for reader in self._readers]

  def close(self) -> None:
    """Closes datasets and priority pushers."""
    for reader in self._readers:
      reader.drop()
      if reader.pusher is not None:
        reader.pusher.close(_CLOSE_S)

  def _count_allowed(self, reader: ShardReader, updates: int) -> int:
    """Returns the number of updates, at most `updates`, that have batches."""
    if not reader.may_run_out:
      return updates
    # If the table ran out of items within a batch, the dataset would end, and
    # the items sampled for that batch would be lost.
    samples = self._limiter.samples_allowed(reader.status())
    allowed = samples // self._spec.batch_size
    reader.may_run_out = allowed < updates
    return min(updates, allowed)

  def _run_on(
    self, reader: ShardReader, updates: int
  ) -> updates_core.LastUpdate | None:
    """Runs updates on batches of one server, and sends the new priorities."""
    shard, sizes = self._readers.index(reader), self._sizes()
    weight = self._weights.weight(shard, sizes)
    try:
      done = self._function(
        reader.iterator, tf.constant(updates), tf.constant(weight)
      )
    except _NO_BATCH_ERRORS as error:
      logging.info("no batch of shard %d: %s", shard, type(error).__name__)
      reader.drop()
      reader.may_run_out = True
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
    if len(self._readers) == 1:
      return [1]  # without a poll, since the only shard has weight 1
    sizes = [reader.size for reader in self._readers]
    return [size * (size >= self._limiter.min_size) for size in sizes]
