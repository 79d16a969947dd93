"""Writes items into a table with a Reverb client that never blocks for ever."""

import typing

import numpy as np
import reverb

from replay import priorities as priorities_lib

# Half of them may be unflushed. With 16 more, Reverb, which warns of memory
# from 50 items in flight, is content; a few fill a packet.
MAX_IN_FLIGHT = 32  # items


class ItemWriter:
  """One stream of items to one table, at the server or through a proxy.

  ```python
  writer = ItemWriter('unix:/run/proxy.sock', 'transitions')
  writer.write(items.rows, items.priorities)
  while not writer.wait(timeout_s=0.2):
    ...  # the rate limiter holds this worker back: look whether to stop
  writer.close(timeout_s=1.0)
  ```
  """

  def __init__(self, address: str, table: str):
    """Connects lazily.

    Args:
      address: 'host:port' or 'unix:path' of a server or a proxy.
      table: its name.
    """
    self._client = reverb.Client(address)
    # An item is one row: nothing older is ever referred to.
    self._writer = self._client.trajectory_writer(num_keep_alive_refs=1)
    self._table = table
    self._unflushed = 0
    self.written = 0  # items

  def write(self, rows: np.ndarray, priorities: np.ndarray) -> None:
    """Queues items; call `wait` before the next.

    Args:
      rows: uint8 [M, row_bytes].
      priorities: float [M].

    Raises:
      ValueError: a priority is negative, infinite or not a number.
    """
    priorities_lib.check(priorities)
    writer, table = self._writer, self._table
    for row, priority in zip(rows, priorities.tolist(), strict=True):
      writer.append(row)
      column: typing.Any = writer.history
      writer.create_item(table, priority, column[-1])
    self._unflushed += len(rows)
    self.written += len(rows)

  def wait(self, timeout_s: float) -> bool:
    """Waits until few items are in flight, at most `timeout_s`.

    Returns:
      False if the table, or what lies before it, holds the items back.
    """
    if self._unflushed < MAX_IN_FLIGHT // 2:
      return True
    if not self._flush(MAX_IN_FLIGHT // 2, timeout_s):
      return False
    self._unflushed = 0
    return True

  def close(self, timeout_s: float) -> bool:
    """Sends what is queued, at most for `timeout_s`, and disconnects.

    Returns:
      True if every item was confirmed.
    """
    confirmed = self._flush(0, timeout_s)
    self._writer.close()
    return confirmed

  def _flush(self, in_flight: int, timeout_s: float) -> bool:
    try:
      self._writer.flush(in_flight, timeout_ms=max(1, int(1000 * timeout_s)))
    except reverb.DeadlineExceededError:
      return False
    return True
