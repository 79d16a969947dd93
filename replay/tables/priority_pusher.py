"""Priority pusher: sends new priorities to a server that may be down."""

import queue
import threading
import typing

import numpy as np
import reverb
import tensorflow as tf
from absl import logging

from slipway.replay.items import priorities as priorities_lib
from slipway.replay.tables import shard_monitor, tables

# Maximum number of queued pushes. It is small because new priorities belong to
# new samples.
_QUEUE_SIZE = 2
# Seconds between two checks whether the server is up.
_CHECK_S = 0.1
# Result of `PriorityPusher._get` if no push was queued within `_CHECK_S`.
_TIMED_OUT = ()


class PriorityPusher:
  """Sender of new priorities of items to one server, in a separate thread.

  Reverb's call blocks while the server is down, and cannot be cancelled if it
  is an operation of the trainer's graph.
  """

  def __init__(self, shard: shard_monitor.ShardMonitor):
    """Starts the thread, which connects to the server at the first push."""
    self._shard = shard
    self._queue: queue.Queue = queue.Queue(_QUEUE_SIZE)
    self._thread = threading.Thread(
      target=self._run, name=f"priorities of shard {shard.index}", daemon=True
    )
    self._thread.start()

  def push(self, keys: np.ndarray, priorities: np.ndarray) -> None:
    """Queues new priorities of N items for sending.

    Blocks while the queue is full and the server is up. Drops the priorities if
    the server is down. An item whose new priority is invalid keeps its old one,
    and the first such case is logged. The table ignores keys of evicted items.

    Args:
      keys: keys of the items, uint64 [N]. If a key occurs twice, its last
        priority counts.
      priorities: new priorities, float [N].

    Raises:
      ValueError: no priority is finite and at least 0, so the learner diverges.
    """
    valid = priorities_lib.is_valid(priorities)
    if not valid.all():
      if not valid.any():
        priorities_lib.check(priorities)
      logging.log_first_n(
        logging.WARNING,
        "%d of %d new priorities are invalid: their items keep the old ones; "
        "check rewards and observations for values that are not finite",
        1,
        int((~valid).sum()),
        len(valid),
      )
      keys, priorities = keys[valid], priorities[valid]
    while self._shard.up and not self._put((keys, priorities), _CHECK_S):
      pass

  def close(self, timeout_s: float) -> None:
    """Sends queued priorities and stops the thread.

    Args:
      timeout_s: seconds to wait at most for space in the queue, and again for
        the thread's end. After a timeout, the daemon thread keeps running.
    """
    if self._put(None, timeout_s):
      self._thread.join(timeout_s)

  def _put(self, pushed: typing.Any, timeout_s: float) -> bool:
    """Adds keys and priorities to the queue, or None to stop the thread."""
    try:
      self._queue.put(pushed, timeout=timeout_s)
    except queue.Full:
      return False
    return True

  def _run(self) -> None:
    """Sends queued priorities until None is queued."""
    client, incarnation = None, 0
    while (pushed := self._get()) is not None:
      if not self._shard.up or incarnation != self._shard.incarnation:
        client, incarnation = None, self._shard.incarnation
      if pushed is _TIMED_OUT or not self._shard.up:
        continue
      # `TFClient` takes arrays: `reverb.Client` takes a dictionary, and
      # building it holds the interpreter's lock.
      client = client or reverb.TFClient(self._shard.address)
      keys, priorities = pushed
      try:
        client.update_priorities(
          tables.TRANSITIONS,
          tf.constant(keys),
          tf.constant(priorities, tf.float64),
        )
      except (tf.errors.OpError, RuntimeError, reverb.errors.ReverbError):
        client = None
        self._shard.mark_lost()

  def _get(self) -> typing.Any:
    """Returns the next queued element; `_TIMED_OUT`: none within `_CHECK_S`."""
    # The client of a server that is down must not be kept until the next push:
    # its channel would connect again after longer and longer delays.
    try:
      return self._queue.get(timeout=_CHECK_S)
    except queue.Empty:
      return _TIMED_OUT
