"""Shard monitor: checks for the trainer whether one replay server is up.

Reverb's samplers and clients block while their server is down, without an error
or a timeout. So a thread checks whether the server is up. If the server is
down, the thread calls `on_lost`, which cancels the readers.
"""

import threading
import time
from collections.abc import Callable, Sequence

import reverb
from absl import logging

from slipway.replay.tables import table_status
from slipway.replay.transport import routes

# Seconds between two checks whether the server is up. Each check is an attempt
# to connect.
_PERIOD_S = 0.2
# Seconds between two polls of the table's size. Each poll takes the table's
# lock.
_SIZE_PERIOD_S = 1.0
# Seconds without a reply after which a server counts as down although it
# accepts connections. Listing a large table for a snapshot takes less time.
_SILENT_AFTER_S = 20.0


class ShardMonitor:
  """Monitor of one replay server, in a separate thread until `close`.

  Attributes:
    index: index of the server among the shards, from 0.
    address: 'host:port' of the server.
    incarnation: how many times the server has come up; connections to an
      earlier incarnation are invalid.
    size: number of items in the server's table at the last poll.
    on_lost: callback when the server is found down, called in the monitor's
      thread or in the thread that calls `mark_lost`.
  """

  def __init__(self, index: int, address: str, table: str):
    """Starts the thread; the server counts as down until its first reply.

    Args:
      index: index of the server among the shards, from 0.

    Raises:
      ValueError: the address is not 'host:port'.
    """
    self.index, self.address = index, address
    self.incarnation, self.size = 0, 0
    self.on_lost: Callable[[], None] = lambda: None
    self._route = routes.DirectRoute(address)
    self._table = table
    # For the reader's own thread. A client that has failed is dropped, as new
    # clients would share the delays of its channel.
    self._client: reverb.Client | None = None
    self._up = threading.Event()
    self._lock = threading.Lock()  # held while `up` changes
    self._closed = threading.Event()
    self._thread = threading.Thread(
      target=self._run, name=f"shard {index}", daemon=True
    )
    self._thread.start()

  @property
  def up(self) -> bool:
    """Whether the server was up at the last check."""
    return self._up.is_set()

  def wait(self, timeout_s: float) -> bool:
    """Waits until the server is up, for at most `timeout_s` seconds."""
    return self._up.wait(timeout_s)

  def status(self) -> table_status.TableStatus | None:
    """Polls the counts of the table; None: the server does not reply."""
    if not self.up:
      self._client = None
      return None
    client, self._client = self._client or reverb.Client(self.address), None
    try:
      status = table_status.read(client, self._table)
    except (KeyError, RuntimeError, reverb.errors.ReverbError):
      return None
    self._client, self.size = client, status.size
    return status

  def mark_lost(self) -> None:
    """Marks the server as down until the thread finds it up again.

    Readers call this when they get an error from the server.
    """
    with self._lock:
      if not self._up.is_set():
        return
      self._up.clear()
    logging.warning(
      "replay server %d at %s is down: the trainer continues without it",
      self.index,
      self.address,
    )
    self.on_lost()

  def close(self) -> None:
    """Stops the monitor's thread."""
    self._closed.set()
    self._thread.join()

  def _run(self) -> None:
    """Checks the server and polls the table's size until `close`."""
    client, polled_at_s, replied_at_s = None, 0.0, time.monotonic()
    while not self._closed.is_set():
      if self._route.waits_for() is not None:
        client = None
        self.mark_lost()
      elif not self.up or time.monotonic() - polled_at_s >= _SIZE_PERIOD_S:
        polled_at_s = time.monotonic()
        client = client or reverb.Client(self.address)
        try:
          self.size = table_status.read(client, self._table).size
        except (KeyError, RuntimeError, reverb.errors.ReverbError):
          client = None
          if time.monotonic() - replied_at_s >= _SILENT_AFTER_S:
            self.mark_lost()
        else:
          replied_at_s = time.monotonic()
          self._mark_up()
      self._closed.wait(_PERIOD_S)

  def _mark_up(self) -> None:
    """Marks the server as up, in a new incarnation if it was down."""
    with self._lock:
      if self._up.is_set():
        return
      self.incarnation += 1
      self._up.set()
    logging.info(
      "replay server %d at %s is up, with %d items",
      self.index,
      self.address,
      self.size,
    )


def statuses(
  monitors: Sequence[ShardMonitor],
) -> list[table_status.TableStatus]:
  """Polls the table counts of all servers that are up.

  Returns:
    The counts of the servers that have replied, in the order of the monitors.
  """
  found = [monitor.status() for monitor in monitors if monitor.up]
  return [status for status in found if status is not None]
