"""Item writer: writes items to a Reverb table, with timeouts and reconnects."""

import time
import typing

import numpy as np
import reverb

from slipway.replay.items import frame_stream
from slipway.replay.items import frames as frames_lib
from slipway.replay.items import priorities as priorities_lib
from slipway.replay.transport import routes

# Items of one writer that may be in flight before a `write`, by default. A few
# items already fill a packet. Reverb warns of memory use from 50 items on.
MAX_IN_FLIGHT = 32

# Seconds between two checks of `ItemWriter.wait` whether a stream can be
# opened.
_RETRY_S = 0.02


class ItemWriter:
  """Writer of items to one table, with a new stream after a stream breaks.

  Each item is inserted at most once. Items in flight when a stream breaks are
  counted as lost, even if they have arrived, and are not sent again. Those that
  are written before the next stream is open are lost, too.

  ```python
  writer = ItemWriter(routes.DirectRoute('localhost:7000'), 'transitions')
  while working:
    while not writer.wait(timeout_s=0.2):
      ...  # `writer.waits_for` has the reason; check whether to stop
    writer.write(*items)
  writer.close(timeout_s=1.0)
  ```

  Attributes:
    written: number of items passed to `write`.
    lost: number of items that were in flight when a stream broke, or written
      while there was none.
    discarded: number of items that were unconfirmed when `close` timed out.
    streams: number of streams opened; all but the first replaced a broken one.
    waits_for: reason why the last `wait` returned False, for messages.
  """

  def __init__(
    self,
    route: routes.Route,
    table: str,
    kept_frame_records: int = 0,
    unconfirmed: int = MAX_IN_FLIGHT // 2,
  ):
    """Stores the arguments; the first `wait` opens a stream.

    Args:
      kept_frame_records: number of newest frame records that items may refer to
        (`table_spec.ItemSchema.kept_frame_records`); 0: items have no frame
        records.
      unconfirmed: maximum number of unconfirmed items when `write` is called.
    """
    self._route = route
    self._table = table
    self._kept_frame_records = kept_frame_records
    self._unconfirmed = unconfirmed
    self._frame_stream: frame_stream.FrameRecordStream | None = None
    # Only the writer refers to its client, so the channel is freed with it, and
    # so are the delays that gRPC keeps for an address that failed.
    self._writer: reverb.TrajectoryWriter | None = None
    self._in_flight = 0  # items, at most
    self._unflushed = 0  # items
    self.written = 0
    self.lost = 0
    self.discarded = 0
    self.streams = 0
    self.waits_for = "a stream, which `wait` has not opened yet"

  @property
  def confirmed(self) -> int:
    """Number of items that are known to be confirmed; a lower bound."""
    return self.written - self.lost - self.discarded - self._in_flight

  def wait(self, timeout_s: float) -> bool:
    """Waits until a stream is open and enough items are confirmed.

    Returns:
      Whether `write` may be called. False after the timeout, if no stream can
      be opened, or if the stream has just broken.

    Raises:
      RuntimeError: the server rejects the items.
    """
    if self._writer is not None and self._route.is_broken():
      self._abandon()
    if self._writer is None and not self._open(timeout_s):
      return False
    if self._unflushed < self._unconfirmed:
      return True
    return self._flush_to(self._unconfirmed, timeout_s)

  def write(
    self,
    records: np.ndarray,
    priorities: np.ndarray,
    frames: frames_lib.FrameIds | None = None,
  ) -> None:
    """Queues M items for sending; call it after a `wait` that returned True.

    Args:
      records: packed records, uint8 [M, record_bytes].
      priorities: priorities of the items, float [M].
      frames: frame numbers of the items, if they have frame records.

    Raises:
      ValueError: a priority is negative, infinite or not a number, or the
        numbers of records and priorities differ.
      RuntimeError: the server rejects the items, or `wait` has not yet returned
        True.
    """
    if not self.streams:
      raise RuntimeError(
        f"{len(records)} items can't be written, as there is no stream; call"
        " `wait` until it returns True first."
      )
    priorities_lib.check(priorities)
    if len(records) != len(priorities):
      raise ValueError(
        f"{len(records)} records came with {len(priorities)} priorities, so"
        " none was written; pass one priority per record."
      )
    self.written += len(records)
    if self._writer is None:  # a call of `wait` after the one that was True
      self.lost += len(records)
      return
    self._in_flight += len(records)
    self._unflushed += len(records)
    try:
      if self._frame_stream is None:
        self._write_records(self._writer, records, priorities)
      else:
        assert frames is not None
        self._frame_stream.write(self._table, records, priorities, frames)
    except (RuntimeError, reverb.errors.ReverbError):
      if not self._route.is_broken(stalled=True):
        raise

  def _write_records(
    self, writer: typing.Any, records: np.ndarray, priorities: np.ndarray
  ) -> None:
    """Queues items without frame records, one `append` per item."""
    table = self._table
    for record, priority in zip(records, priorities.tolist(), strict=True):
      writer.append(record)
      writer.create_item(table, priority, writer.history[-1])

  def flush(self, timeout_s: float) -> bool:
    """Waits until no item is in flight; returns False after the timeout."""
    if self._writer is None:
      return True
    if self._route.is_broken():
      self._abandon()
      return True
    return self._flush_to(0, timeout_s)

  def close(self, timeout_s: float) -> bool:
    """Waits until no item is in flight, and closes the stream.

    Args:
      timeout_s: seconds to wait at most; items that are unconfirmed then are
        counted as discarded.

    Returns:
      The result of `flush`: whether no item was in flight.
    """
    flushed = self.flush(timeout_s)
    if self._writer is not None:
      self.discarded += self._end_stream()
    return flushed

  def _open(self, timeout_s: float) -> bool:
    """Opens a stream as soon as the route allows it."""
    end_s = time.monotonic() + timeout_s
    while (reason := self._route.waits_for()) is not None:
      self.waits_for = reason
      left_s = end_s - time.monotonic()
      if left_s <= 0:
        return False
      time.sleep(min(_RETRY_S, left_s))
    self._route.renew()
    client = reverb.Client(self._route.address)
    # An item without frame records refers to no older data. Items are not
    # validated, as Reverb calls the server for that, without a timeout.
    self._writer = client.trajectory_writer(
      max(1, self._kept_frame_records), validate_items=False
    )
    if self._kept_frame_records:
      self._frame_stream = frame_stream.FrameRecordStream(
        self._writer, self._kept_frame_records
      )
    self.streams += 1
    return True

  def _flush_to(self, in_flight: int, timeout_s: float) -> bool:
    """Waits until at most a given number of items are unconfirmed."""
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
    """Closes a broken stream, and counts its items in flight as lost."""
    self.lost += self._end_stream()

  def _end_stream(self) -> int:
    """Closes the stream, and returns how many items were in flight."""
    writer, self._writer = self._writer, None
    assert writer is not None
    in_flight = _count_in_flight(writer, self._in_flight)
    writer.close()
    self._in_flight = self._unflushed = 0
    return in_flight


def _count_in_flight(writer: reverb.TrajectoryWriter, at_most: int) -> int:
  """Returns the number of a writer's unconfirmed items, by bisection."""
  # Reverb has no call that returns it; `flush` shows, by a timeout, if more
  # than some number of items are unconfirmed.
  low, high = 0, at_most
  while low < high:
    middle = (low + high) // 2
    try:
      writer.flush(middle, timeout_ms=1)
    except reverb.DeadlineExceededError:
      low = middle + 1
    except (RuntimeError, reverb.errors.ReverbError):
      return at_most  # The whole stream has failed.
    else:
      high = middle
  return high
