"""Writes items into a table with a Reverb client that never blocks for ever."""

import time
import typing

import numpy as np
import reverb

from slipway.replay import cell_stream, routes
from slipway.replay import frames as frames_lib
from slipway.replay import priorities as priorities_lib

# Half of them may be unflushed by default. With 16 more, Reverb, which warns of
# memory from 50 items in flight, is content; a few fill a packet.
MAX_IN_FLIGHT = 32  # items

# Seconds between two looks whether a stream can be opened again.
_RETRY_S = 0.02


class ItemWriter:
  """One stream of items to one table, and the next one when it breaks.

  Each item is written at most once: what was in flight when a stream broke is
  counted as lost, whether it arrived or not, and not sent again.

  ```python
  writer = ItemWriter(routes.DirectRoute('localhost:7000'), 'transitions')
  while working:
    while not writer.wait(timeout_s=0.2):
      ...  # writer.waits_for says for what: look whether to stop
    writer.write(*items)
  writer.close(timeout_s=1.0)
  ```

  Attributes:
    written: items taken by `write`.
    lost: items that were in flight when a stream broke.
    discarded: items in flight at `close` that the table no longer took.
    streams: that were opened; each but the first replaced a broken one.
    waits_for: what the last `wait` that returned False waited for.
  """

  def __init__(
    self,
    route: routes.Route,
    table: str,
    kept_cells: int = 0,
    unconfirmed: int = MAX_IN_FLIGHT // 2,
  ):
    """Opens nothing; the first `wait` does.

    Args:
      route: to a server, or through a proxy.
      table: its name.
      kept_cells: newest cells that items refer to, where items are cells
        (`table_spec.ItemSchema.kept_cells`); 0: items are rows.
      unconfirmed: items that may be so when more are written.
    """
    self._route = route
    self._table = table
    self._kept_cells = kept_cells
    self._unconfirmed = unconfirmed
    self._cells: cell_stream.CellStream | None = None
    # The client is kept nowhere else: with its writer its channel goes, and
    # with that the delays that gRPC keeps for an address that failed.
    self._writer: reverb.TrajectoryWriter | None = None
    self._in_flight = 0  # items, at most
    self._unflushed = 0  # items
    self.written = 0
    self.lost = 0
    self.discarded = 0
    self.streams = 0
    self.waits_for = "a stream, which was not asked for yet"

  @property
  def confirmed(self) -> int:
    """Items that the server is known to have taken; some more may be."""
    return self.written - self.lost - self.discarded - self._in_flight

  def wait(self, timeout_s: float) -> bool:
    """Waits until items can be written, at most `timeout_s`.

    Returns:
      False if the table, or what lies before it, holds the writer back.

    Raises:
      RuntimeError: the server refuses the items.
    """
    if self._writer is not None and self._route.is_broken():
      self._abandon()
    if self._writer is None and not self._open(timeout_s):
      return False
    if self._unflushed < self._unconfirmed:
      return True
    return self._flush(self._unconfirmed, timeout_s)

  def write(
    self,
    rows: np.ndarray,
    priorities: np.ndarray,
    frames: frames_lib.FrameIds | None = None,
  ) -> None:
    """Queues items, right after a `wait` that returned True.

    Args:
      rows: uint8 [M, row_bytes].
      priorities: float [M].
      frames: [M], where items are cells.

    Raises:
      ValueError: a priority is negative, infinite or not a number, or there is
        another number of rows.
      RuntimeError: the server refuses the items, or there was no such `wait`.
    """
    if self._writer is None:
      raise RuntimeError(
        f"{len(rows)} items were to be written without a stream, so none was;"
        " call `wait` until it returns True first."
      )
    priorities_lib.check(priorities)
    if len(rows) != len(priorities):
      raise ValueError(
        f"{len(rows)} rows came with {len(priorities)} priorities, so none was"
        " written; pass one priority a row."
      )
    self.written += len(rows)
    self._in_flight += len(rows)
    self._unflushed += len(rows)
    try:
      if self._cells is None:
        self._write_rows(self._writer, rows, priorities)
      else:
        assert frames is not None
        self._cells.write(self._table, rows, priorities, frames)
    except (RuntimeError, reverb.errors.ReverbError):
      if not self._route.is_broken(stalled=True):
        raise

  def _write_rows(
    self, writer: typing.Any, rows: np.ndarray, priorities: np.ndarray
  ) -> None:
    table = self._table
    for row, priority in zip(rows, priorities.tolist(), strict=True):
      writer.append(row)
      writer.create_item(table, priority, writer.history[-1])

  def settle(self, timeout_s: float) -> bool:
    """Waits until nothing is in flight, at most `timeout_s`."""
    if self._writer is None:
      return True
    if self._route.is_broken():
      self._abandon()
      return True
    return self._flush(0, timeout_s)

  def close(self, timeout_s: float) -> bool:
    """Sends what is queued, at most for `timeout_s`, and disconnects.

    Returns:
      True if nothing was in flight any more.
    """
    settled = self.settle(timeout_s)
    if self._writer is not None:
      self.discarded += self._end_stream()
    return settled

  def _open(self, timeout_s: float) -> bool:
    end_s = time.monotonic() + timeout_s
    while (reason := self._route.waits_for()) is not None:
      self.waits_for = reason
      left_s = end_s - time.monotonic()
      if left_s <= 0:
        return False
      time.sleep(min(_RETRY_S, left_s))
    self._route.renew()
    client = reverb.Client(self._route.address)
    # An item that is a row refers to nothing older. Items are not validated,
    # since for that Reverb asks the server, without a timeout.
    self._writer = client.trajectory_writer(
      max(1, self._kept_cells), validate_items=False
    )
    if self._kept_cells:
      self._cells = cell_stream.CellStream(self._writer, self._kept_cells)
    self.streams += 1
    return True

  def _flush(self, in_flight: int, timeout_s: float) -> bool:
    writer: typing.Any = self._writer
    try:
      writer.flush(in_flight, timeout_ms=max(1, int(1000 * timeout_s)))
    except reverb.DeadlineExceededError:
      self.waits_for = "the table to take items"
      if self._route.is_broken(stalled=True):
        self._abandon()
      return False
    except (RuntimeError, reverb.errors.ReverbError):
      if not self._route.is_broken(stalled=True):
        raise
      self._abandon()
      return False
    self._in_flight = min(self._in_flight, in_flight)
    self._unflushed = 0
    return True

  def _abandon(self) -> None:
    """Ends a stream; counts what was in flight as lost."""
    self.lost += self._end_stream()

  def _end_stream(self) -> int:
    """Ends a stream; returns how many items were in flight."""
    writer, self._writer = self._writer, None
    assert writer is not None
    in_flight = _in_flight(writer, self._in_flight)
    writer.close()
    self._in_flight = self._unflushed = 0
    return in_flight


def _in_flight(writer: reverb.TrajectoryWriter, at_most: int) -> int:
  """How many items are unconfirmed, which Reverb tells by waiting only."""
  low, high = 0, at_most
  while low < high:
    middle = (low + high) // 2
    try:
      writer.flush(middle, timeout_ms=1)
    except reverb.DeadlineExceededError:
      low = middle + 1
    except (RuntimeError, reverb.errors.ReverbError):
      return at_most  # It has failed as a whole.
    else:
      high = middle
  return high
