"""Relay side: one of the two connections of a relay's link."""

import asyncio
import select
import socket
import typing
from typing import Any

if typing.TYPE_CHECKING:
  from slipway.replay.transport import relay_link

# Bytes in a side's send buffer from which on the other side is not read. Twice
# the maximum size of one read.
_HIGH_WATER = 512 * 1024
# Bytes in a side's send buffer below which the other side is read again.
_LOW_WATER = 128 * 1024

# Seconds without data after which TCP sends keepalive probes. A peer that
# vanishes without closing is detected after about 60 + 3 * 20 s.
_KEEPALIVE_IDLE_S = 60
# Seconds between two keepalive probes.
_KEEPALIVE_INTERVAL_S = 20
# Number of unanswered keepalive probes after which a connection is closed.
_KEEPALIVE_PROBES = 3

# Seconds after which a connection with unacknowledged data is closed, as TCP
# sends no keepalive probes then. A live peer that does not read for this time
# is also closed. gRPC always reads, even while a rate limiter blocks.
_USER_TIMEOUT_S = 120


def has_ended(transport: Any) -> bool:
  """Returns whether the peer has ended its sending; unread data may be left.

  Also returns True after this process has closed the connection.
  """
  return _has_event(transport, select.POLLRDHUP)


def is_closed(transport: Any) -> bool:
  """Returns whether the peer is known to have closed both directions.

  A unix socket shows this at once, TCP only after a reset or a failed
  keepalive. Also returns True after this process has closed the connection.
  """
  return _has_event(transport, 0)


class Side(asyncio.Protocol):
  """One of a link's two connections, which forwards its data to the other.

  The methods of `asyncio.Protocol` are callbacks of the event loop.

  Attributes:
    transport: asyncio transport; None before the side is connected.
    other: the other side of the link.
    received: number of bytes received from the peer.
    ended: whether the peer has ended its sending.
    lost: whether the connection is closed.
  """

  transport: Any = None
  other: "Side"

  def __init__(self, link: "relay_link.Link"):
    self._link = link
    self.received = 0
    self.ended = False
    self.lost = False

  def connection_made(self, transport):
    """Stores the transport, and sets buffer limits and TCP options."""
    self.transport = transport
    transport.set_write_buffer_limits(high=_HIGH_WATER, low=_LOW_WATER)
    _configure(transport.get_extra_info("socket"))
    self._link.on_connected(self)

  def data_received(self, data):
    """Forwards data; passes it to the link if the other side is unconnected."""
    self.received += len(data)
    if self.other.transport is None:
      self._link.on_early(data)
    else:
      self.other.transport.write(data)

  def eof_received(self):
    """Forwards the end of the peer's sending."""
    self.ended = True
    self._link.on_ended(self)
    if self.other.transport is None or self.other.transport.is_closing():
      return False
    if not (
      self.transport.can_write_eof() and self.other.transport.can_write_eof()
    ):
      # TLS ends both directions at once.
      self.other.transport.close()
      return False
    self.other.transport.write_eof()
    # The other direction may continue. When both have ended, both close.
    return not self.other.ended

  def pause_writing(self):
    """Stops reading the other side, as this side's send buffer is full."""
    if not self.other.transport.is_closing():
      self.other.transport.pause_reading()

  def resume_writing(self):
    """Reads the other side again, as this side's send buffer has room."""
    if not self.other.transport.is_closing():
      self.other.transport.resume_reading()

  def connection_lost(self, exc):
    """Marks the side as closed, and informs the link."""
    del exc  # A reset is handled like any other end: clients connect again.
    self.lost = True
    self._link.on_lost(self)

  def buffered(self) -> int:
    """Returns the number of bytes in the send buffer."""
    if self.transport is None or self.lost:
      return 0
    return self.transport.get_write_buffer_size()


def _configure(connection: socket.socket) -> None:
  """Disables the Nagle delay of TCP and enables detection of vanished peers."""
  if connection.family == socket.AF_UNIX:
    return
  # An item is a few small writes which the other end waits for.
  connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
  connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
  for option, value in (
    (socket.TCP_KEEPIDLE, _KEEPALIVE_IDLE_S),
    (socket.TCP_KEEPINTVL, _KEEPALIVE_INTERVAL_S),
    (socket.TCP_KEEPCNT, _KEEPALIVE_PROBES),
    (socket.TCP_USER_TIMEOUT, _USER_TIMEOUT_S * 1_000),
  ):
    connection.setsockopt(socket.IPPROTO_TCP, option, value)


def _has_event(transport: Any, events: int) -> bool:
  """Returns whether poll(2) reports an event, POLLHUP or POLLERR now."""
  if transport.is_closing():
    return True
  poll = select.poll()
  # The kernel reports POLLHUP and POLLERR besides `events`.
  poll.register(transport.get_extra_info("socket").fileno(), events)
  return bool(poll.poll(0))
