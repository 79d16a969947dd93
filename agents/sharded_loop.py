"""The learner's inner loop over the shards of a replay, each in its turn."""

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf
from absl import logging
from tensorflow.python.eager import cancellation

from agents import core, update_loop
from replay import dataset as dataset_lib
from replay import priority_pusher, table_status
from replay import shard as shard_lib

# What a dataset ends with whose server is gone, or whose call was cancelled.
_LOST = (
  tf.errors.CancelledError,
  tf.errors.UnavailableError,
  tf.errors.DeadlineExceededError,
  tf.errors.AbortedError,
)
_CLOSE_S = 0.5  # for priorities on their way


class Reading:
  """What is read from one shard, and told to it."""

  def __init__(
    self,
    shard: shard_lib.Shard,
    make_dataset: Callable[[], tf.data.Dataset],
    pusher: priority_pusher.PriorityPusher | None,
  ):
    """Opens nothing.

    Args:
      shard: whose loss ends a call that reads from it.
      make_dataset: of its table. A dataset keeps its connection, which would
        try a server that was gone again after longer and longer delays.
      pusher: where its new priorities go; None: nowhere.
    """
    self.shard, self.pusher = shard, pusher
    self.starving = True  # the table may not have a whole call's batches
    self._make_dataset = make_dataset
    self._iterator: tf.data.Iterator | None = None
    self._life = 0  # of the shard, that the iterator is of
    self._calls = cancellation.CancellationManager()
    shard.on_lost = self._cancel

  def call(self, function: Any, *args: tf.Tensor) -> Any:
    """Calls a concrete function with an iterator first, until it is lost.

    Raises:
      tf.errors.OpError: one of `_LOST`, or the dataset's own.
    """
    if self._iterator is None or self._life != self.shard.lives:
      self.drop()
      self._life = self.shard.lives
      self._calls = cancellation.CancellationManager()
      self._iterator = iter(self._make_dataset())
    return self._calls.get_cancelable_function(function)(self._iterator, *args)

  def drop(self) -> None:
    """Gives up what was read ahead; the next call begins anew."""
    self._iterator = None

  @property
  def spec(self) -> Any:
    """What an iterator is, for tracing."""
    return tf.data.IteratorSpec(self._make_dataset().element_spec)

  def _cancel(self) -> None:
    self._calls.start_cancel()


class ShardedLoop:
  """Runs several updates a call, all on batches of one shard.

  Shards take turns by the call: so a call asks one server, whose priorities
  are pushed at once, and one that is lost costs no more than its own call. Each
  has the same part of all updates; of those that have no batches, or are not
  there, the others have it.
  """

  def __init__(
    self,
    learner: core.Learner,
    readings: Sequence[Reading],
    unpack: Callable[[Any], dataset_lib.Batch],
    batches_allowed: Callable[[table_status.TableStatus], int],
  ):
    """Traces nothing yet.

    Args:
      learner: its `update` is traced into the loop.
      readings: one a shard.
      unpack: makes a batch of an element of their datasets.
      batches_allowed: how many a table's limiter lets through at once.
    """
    self._updates = update_loop.Updates(learner, unpack)
    self._readings = readings
    self._batches_allowed = batches_allowed
    self._turn = 0
    self._function: Any = None  # traced at the first call

  @property
  def up(self) -> int:
    """How many shards are there."""
    return sum(reading.shard.up for reading in self._readings)

  def run(self, updates: int) -> update_loop.LastUpdate | None:
    """Runs at most `updates` updates, on the next shard that has batches.

    Returns:
      The last one, or None if no shard has any, or this one starved or was lost
      on the way: the updates done before are done, and `run` may be called
      again.
    """
    for _ in self._readings:
      reading = self._readings[self._turn]
      self._turn = (self._turn + 1) % len(self._readings)
      if allowed := self._allowed(reading, updates):
        return self._run(reading, allowed)
    return None

  def close(self) -> None:
    """Ends what is open."""
    for reading in self._readings:
      reading.drop()
      if reading.pusher is not None:
        reading.pusher.close(_CLOSE_S)
      reading.shard.close()

  def _allowed(self, reading: Reading, updates: int) -> int:
    """Updates that the shard has batches for; 0: it is not its turn."""
    if not reading.shard.up:
      reading.drop()
      return 0
    if not reading.starving:
      return updates
    # What a dataset has of a batch is lost where it ends for want of more.
    status = reading.shard.status()
    allowed = 0 if status is None else self._batches_allowed(status)
    reading.starving = allowed < updates
    return min(updates, allowed)

  def _run(
    self, reading: Reading, updates: int
  ) -> update_loop.LastUpdate | None:
    if self._function is None:
      # AutoGraph would rewrite the source of all that is called from here.
      graph = tf.function(self._updates, autograph=False)
      self._function = graph.get_concrete_function(
        reading.spec, tf.TensorSpec([], tf.int32), tf.TensorSpec([], tf.float32)
      )
    try:
      done = reading.call(
        self._function, tf.constant(updates), tf.constant(self._share(reading))
      )
    except tf.errors.OutOfRangeError:
      reading.drop()
      reading.starving = True
      return None
    except _LOST as error:
      logging.info("shard %d: %s", reading.shard.index, type(error).__name__)
      reading.drop()
      reading.starving = True
      reading.shard.lose()
      return None
    if reading.pusher is not None:
      reading.pusher.push(done.keys.numpy(), done.priorities.numpy())
    return update_loop.LastUpdate.of(
      self._updates.names, done.metrics, done.versions
    )

  def _share(self, reading: Reading) -> float:
    """Items of a shard to those of the largest that is there."""
    sizes = [other.shard.size for other in self._readings if other.shard.up]
    return reading.shard.size / max(1, reading.shard.size, *sizes)
