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

# Pushes that may wait. More are not needed: new priorities need new samples.
_QUEUE_SIZE = 2
_CHECK_S = 0.1  # between two checks whether the server is up
_TIMED_OUT = ()


class PriorityPusher:
  """Sends priorities to one server, in a thread of its own.

  Reverb's call blocks while the server is down. As an operation of the
  trainer's graph it could not be cancelled.
  """

  def __init__(self, shard: shard_monitor.ShardMonitor):
    """Starts the thread, which connects at the first push.

    Args:
      shard: monitor of the server that has the items.
    """
    self._shard = shard
    self._queue: queue.Queue = queue.Queue(_QUEUE_SIZE)
    self._thread = threading.Thread(
      target=self._run, name=f"priorities of shard {shard.index}", daemon=True
    )
    self._thread.start()

  def push(self, keys: np.ndarray, priorities: np.ndarray) -> None:
    """Queues priorities; the table ignores those of evicted items.

    Blocks while the queue is full and the server is up. If the server is down,
    the priorities are dropped: its restored items have priorities. An item
    whose new priority is invalid keeps its old one, which is logged once.

    Args:
      keys: uint64 [N]; the last of equal ones counts.
      priorities: float [N].

    Raises:
      ValueError: no priority is finite and at least 0: the learner diverges.
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
      timeout_s: seconds to wait at most; the daemon thread is left then.
    """
    if self._put(None, timeout_s):
      self._thread.join(timeout_s)

  def _put(self, pushed: typing.Any, timeout_s: float) -> bool:
    try:
      self._queue.put(pushed, timeout=timeout_s)
    except queue.Full:
      return False
    return True

  def _run(self) -> None:
    """Sends what is queued, with a new client after each restart."""
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
    # The client of a server that is down must not be kept until the next push:
    # its channel would connect again after longer and longer delays.
    try:
      return self._queue.get(timeout=_CHECK_S)
    except queue.Empty:
      return _TIMED_OUT
