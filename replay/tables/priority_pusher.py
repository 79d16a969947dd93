"""Priority pusher: sends new priorities to a replay server."""

import contextlib
import queue
import threading

import numpy as np
import reverb
import tensorflow as tf
from absl import logging

from slipway.replay.items import priorities as priorities_lib
from slipway.replay.tables import tables

# Maximum number of queued pushes. It is small because new priorities belong to
# new samples.
_QUEUE_SIZE = 2


class PriorityPusher:
  """Sender of new priorities of items to one server, in a separate thread.

  The trainer can learn meanwhile.
  """

  def __init__(self, address: str):
    """Starts the thread, which connects to the server at the first push.

    Args:
      address: 'host:port' of the server that has the items.
    """
    self._address = address
    self._queue: queue.Queue = queue.Queue(_QUEUE_SIZE)
    self._thread = threading.Thread(
      target=self._run, name=f"priorities of {address}", daemon=True
    )
    self._thread.start()

  def push(self, keys: np.ndarray, priorities: np.ndarray) -> None:
    """Queues new priorities of N items for sending.

    Blocks while the queue is full. An item whose new priority is invalid keeps
    its old one, and the first such case is logged. The table ignores keys of
    evicted items.

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
    self._queue.put((keys, priorities))

  def close(self, timeout_s: float) -> None:
    """Sends queued priorities and stops the thread.

    Args:
      timeout_s: seconds to wait at most for space in the queue, and again for
        the thread's end. After a timeout, the daemon thread keeps running.
    """
    with contextlib.suppress(queue.Full):
      self._queue.put(None, timeout=timeout_s)
      self._thread.join(timeout_s)

  def _run(self) -> None:
    """Sends queued priorities until None is queued."""
    # `TFClient` takes arrays: `reverb.Client` takes a dictionary, and building
    # it holds the interpreter's lock.
    client = reverb.TFClient(self._address)
    while (pushed := self._queue.get()) is not None:
      keys, priorities = pushed
      try:
        client.update_priorities(
          tables.TRANSITIONS,
          tf.constant(keys),
          tf.constant(priorities, tf.float64),
        )
      except (tf.errors.OpError, RuntimeError, reverb.errors.ReverbError) as e:
        logging.warning("new priorities were not sent: %s", e)
