"""A shard: one of several replay servers, as their trainer sees it.

Reverb's samplers and clients wait for a server that is gone for as long as it
is, without an error and without a timeout. So a thread looks whether it is
there, and tells who reads from it to give up.
"""

import threading
import time
from collections.abc import Callable

import reverb
from absl import logging

from replay import routes, table_status, tables

# Seconds between two looks whether it is there: a connection each.
_PERIOD_S = 0.2
# Seconds between two questions for its size, which cost the table's lock.
_SIZE_PERIOD_S = 1.0
# One that accepts connections and does not answer for so many seconds hangs:
# longer than a large table is listed for a snapshot.
_SILENT_AFTER_S = 20.0


class Shard:
  """Watches a server from a thread of its own until `close`.

  Attributes:
    index: among the shards, from 0.
    address: 'host:port' of its server.
    lives: how often it was found after it was not there: what was opened in
      another one is of no use.
    size: items in its table when it was last asked.
    on_lost: called in the thread when it is found gone.
  """

  def __init__(self, index: int, address: str, table: str):
    """Takes it as gone until the thread finds it.

    Args:
      index: among the shards, from 0.
      address: 'host:port' of its server.
      table: whose counts are asked for.

    Raises:
      ValueError: the address has another form.
    """
    self.index, self.address = index, address
    self.lives, self.size = 0, 0
    self.on_lost: Callable[[], None] = lambda: None
    self._route = routes.DirectRoute(address)
    self._table = table
    # Of the reader's own thread; a client that failed is dropped, as its
    # channel would have new ones wait with it.
    self._view: tables.TableView | None = None
    self._up = threading.Event()
    self._lock = threading.Lock()  # held where it is lost and found
    self._closed = threading.Event()
    self._thread = threading.Thread(
      target=self._run, name=f"shard {index}", daemon=True
    )
    self._thread.start()

  @property
  def up(self) -> bool:
    """Whether it is there, as far as is known."""
    return self._up.is_set()

  def wait(self, timeout_s: float) -> bool:
    """Waits until it is there, at most for so long; returns `up`."""
    return self._up.wait(timeout_s)

  def status(self) -> table_status.TableStatus | None:
    """Counts of its table now; None: it does not answer."""
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

  def lose(self) -> None:
    """Takes it as gone until the thread finds it again.

    For who got an error from it; else the thread notices by itself.
    """
    with self._lock:
      if not self._up.is_set():
        return
      self._up.clear()
    logging.warning(
      "replay shard %d at %s is gone: the others go on without it",
      self.index,
      self.address,
    )
    self.on_lost()

  def close(self) -> None:
    """Ends the thread."""
    self._closed.set()
    self._thread.join()

  def _run(self) -> None:
    view, asked_at_s, heard_at_s = None, 0.0, time.monotonic()
    while not self._closed.is_set():
      if self._route.waits_for() is not None:
        view = None
        self.lose()
      elif not self.up or time.monotonic() - asked_at_s >= _SIZE_PERIOD_S:
        asked_at_s = time.monotonic()
        view = view or self._make_view()
        try:
          self.size = view.status().size
        except (KeyError, RuntimeError, reverb.errors.ReverbError):
          view = None
          if time.monotonic() - heard_at_s >= _SILENT_AFTER_S:
            self.lose()
        else:
          heard_at_s = time.monotonic()
          self._find()
      self._closed.wait(_PERIOD_S)

  def _find(self) -> None:
    with self._lock:
      if self._up.is_set():
        return
      self.lives += 1
      self._up.set()
    logging.info(
      "replay shard %d at %s answers, with %d items",
      self.index,
      self.address,
      self.size,
    )

  def _make_view(self) -> tables.TableView:
    return tables.TableView(self.address, self._table)
