"""Shard monitor: watches one replay server for the trainer.

Reverb's samplers and clients block while their server is down, without an error
or a timeout. So a thread checks whether the server is up, and cancels its
readers if it is down.
"""

import threading
import time
from collections.abc import Callable, Sequence

import reverb
from absl import logging

from slipway.replay.tables import table_status, tables
from slipway.replay.transport import routes

# Seconds between two checks whether the server is up: a connection each.
_PERIOD_S = 0.2
# Seconds between two polls of its size, which take the table's lock.
_SIZE_PERIOD_S = 1.0
# A server that accepts connections but does not reply for so many seconds is
# taken to hang. Listing a large table for a snapshot takes less.
_SILENT_AFTER_S = 20.0


class ShardMonitor:
  """Watches one server in a thread of its own until `close`.

  Attributes:
    index: among the shards, from 0.
    address: 'host:port' of its server.
    incarnation: count of the times that the server came up; connections to an
      earlier incarnation are invalid.
    size: items in its table at the last poll.
    on_lost: called when the server is found down, mostly in the thread.
  """

  def __init__(self, index: int, address: str, table: str):
    """Starts the thread; the server counts as down until the thread finds it.

    Args:
      index: among the shards, from 0.
      address: 'host:port' of its server.
      table: name of the table whose counts are polled.

    Raises:
      ValueError: the address has another form.
    """
    self.index, self.address = index, address
    self.incarnation, self.size = 0, 0
    self.on_lost: Callable[[], None] = lambda: None
    self._route = routes.DirectRoute(address)
    self._table = table
    # For the reader's own thread. A client that has failed is dropped, as new
    # clients would share the delays of its channel.
    self._view: tables.TableView | None = None
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
    """Waits until the server is up, at most `timeout_s`; returns `up`."""
    return self._up.wait(timeout_s)

  def status(self) -> table_status.TableStatus | None:
    """Returns the counts of the table; None: the server does not reply."""
    if not self.up:
      self._view = None
      return None
    view, self._view = self._view or self._make_view(), None
    try:
      status = view.status()
    except (KeyError, RuntimeError, reverb.errors.ReverbError):
      return None
    self._view, self.size = view, status.size
    return status

  def mark_lost(self) -> None:
    """Marks the server as down until the thread finds it up again.

    To be called by a reader that gets an error from the server.
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
    """Stops the thread."""
    self._closed.set()
    self._thread.join()

  def _run(self) -> None:
    view, polled_at_s, replied_at_s = None, 0.0, time.monotonic()
    while not self._closed.is_set():
      if self._route.waits_for() is not None:
        view = None
        self.mark_lost()
      elif not self.up or time.monotonic() - polled_at_s >= _SIZE_PERIOD_S:
        polled_at_s = time.monotonic()
        view = view or self._make_view()
        try:
          self.size = view.status().size
        except (KeyError, RuntimeError, reverb.errors.ReverbError):
          view = None
          if time.monotonic() - replied_at_s >= _SILENT_AFTER_S:
            self.mark_lost()
        else:
          replied_at_s = time.monotonic()
          self._mark_up()
      self._closed.wait(_PERIOD_S)

  def _mark_up(self) -> None:
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

  def _make_view(self) -> tables.TableView:
    return tables.TableView(self.address, self._table)


def statuses(
  monitors: Sequence[ShardMonitor],
) -> list[table_status.TableStatus]:
  """Returns the counts of all servers that are up and reply."""
  found = [monitor.status() for monitor in monitors if monitor.up]
  return [status for status in found if status is not None]
