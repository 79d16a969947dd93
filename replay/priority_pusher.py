"""The way of new priorities to a shard, which may be gone."""

import queue
import threading
import typing

import numpy as np
import reverb

from replay import shard as shard_lib

# Pushes that wait: more are of no use, as new priorities come of new samples.
_WAITING = 2
_LOOK_S = 0.1  # between two looks whether the shard is still there
_NOTHING = ()


class PriorityPusher:
  """Pushes priorities from a thread of its own.

  A push to a server that is gone waits until there is one again. Within the
  trainer's graph, as `priority_updater` does it, nothing could end that.
  """

  def __init__(self, shard: shard_lib.Shard, table: str):
    """Connects at the first push.

    Args:
      shard: that has the items.
      table: its name.
    """
    self._shard, self._table = shard, table
    self._queue: queue.Queue = queue.Queue(_WAITING)
    self._thread = threading.Thread(
      target=self._run, name=f"priorities of shard {shard.index}", daemon=True
    )
    self._thread.start()

  def push(self, keys: np.ndarray, priorities: np.ndarray) -> None:
    """Sets priorities soon; those of items that were evicted are left out.

    Waits for earlier ones while the shard takes them. What it does not take,
    since it is gone, is forgotten: what it begins with has priorities.

    Args:
      keys: uint64 [N]; of equal ones the last counts.
      priorities: float [N].
    """
    while self._shard.up and not self._put((keys, priorities), _LOOK_S):
      pass

  def close(self, timeout_s: float) -> None:
    """Ends the thread after what waits, if that takes no longer.

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
      if not self._shard.up or life != self._shard.lives:
        client, life = None, self._shard.lives
      if pushed is _NOTHING or not self._shard.up:
        continue
      client = client or reverb.Client(self._shard.address)
      keys, priorities = (column.tolist() for column in pushed)
      try:
        client.mutate_priorities(
          self._table, updates=dict(zip(keys, priorities, strict=True))
        )
      except (RuntimeError, reverb.errors.ReverbError):
        client = None
        self._shard.lose()

  def _get(self) -> typing.Any:
    # A client of a server that is gone is not kept until the next push: its
    # channel would try again after longer and longer delays.
    try:
      return self._queue.get(timeout=_LOOK_S)
    except queue.Empty:
      return _NOTHING
