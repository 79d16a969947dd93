"""PriorityPusher: sends new priorities to a server, which may be down."""

import queue
import threading
import typing

import numpy as np
import reverb
import tensorflow as tf
from absl import logging

from slipway.replay.items import priorities as priorities_lib
from slipway.replay.tables import shard_monitor, tables

# Pushes that wait: more are of no use, as new priorities come of new samples.
_WAITING = 2
_LOOK_S = 0.1  # between two checks whether the server is up
_NOTHING = ()


class PriorityPusher:
  """Pushes priorities from a thread of its own.

  A push to a server that is down waits until it is up. In the trainer's graph
  nothing could end that wait.
  """

  def __init__(self, shard: shard_monitor.ShardMonitor):
    """Connects at the first push.

    Args:
      shard: that has the items.
    """
    self._shard = shard
    self._queue: queue.Queue = queue.Queue(_WAITING)
    self._thread = threading.Thread(
      target=self._run, name=f"priorities of shard {shard.index}", daemon=True
    )
    self._thread.start()

  def push(self, keys: np.ndarray, priorities: np.ndarray) -> None:
    """Sets priorities soon; those of items that were evicted are left out.

    Waits for earlier ones while the server is up. What a server that is down
    does not take is dropped: the items it restarts with have priorities. Single
    items whose priority is no number are damaged: they keep the priority that
    they have, which is logged once.

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
        "%d of %d new priorities are not finite: these items are damaged, and "
        "keep their old ones",
        1,
        int((~valid).sum()),
        len(valid),
      )
      keys, priorities = keys[valid], priorities[valid]
    while self._shard.up and not self._put((keys, priorities), _LOOK_S):
      pass

  def close(self, timeout_s: float) -> None:
    """Stops the thread, after what is queued if that takes no longer.

    Args:
      timeout_s: seconds after which the thread is left, as a daemon.
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
    client, life = None, 0
    while (pushed := self._get()) is not None:
      if not self._shard.up or life != self._shard.incarnation:
        client, life = None, self._shard.incarnation
      if pushed is _NOTHING or not self._shard.up:
        continue
      # The client that takes arrays: `reverb.Client` takes a dictionary, and
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
    # A client of a server that is down is not kept until the next push: its
    # channel would try again after longer and longer delays.
    try:
      return self._queue.get(timeout=_LOOK_S)
    except queue.Empty:
      return _NOTHING
