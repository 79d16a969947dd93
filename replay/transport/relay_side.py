"""Relay side: one of a link's two connections, and the state of its peer."""

import asyncio
import select
import socket
import typing
from typing import Any

# Bytes that one side may have in the relay before the other side is no longer
# read, and before it is read again. Twice what one read brings at most.
_HIGH_WATER = 512 * 1024
_LOW_WATER = 128 * 1024

# Seconds: a peer that vanishes without closing is noticed after about
# 60 + 3 * 20.
_KEEPALIVE_IDLE_S = 60
_KEEPALIVE_INTERVAL_S = 20
_KEEPALIVE_PROBES = 3

# Seconds until a vanished peer with unconfirmed data is noticed, as no
# keepalive is sent then. A live peer that does not read for as long is closed,
# too. gRPC is no such peer: it continues to read while a rate limiter blocks.
_USER_TIMEOUT_S = 120


def has_ended(transport: Any) -> bool:
  """Returns whether the peer sends no more, even if data is still unread.

  True, too, after this process has closed the connection.
  """
  return _has_event(transport, select.POLLRDHUP)


def is_closed(transport: Any) -> bool:
  """Returns whether the peer neither sends nor reads, as far as is known.

  A unix socket shows it at once; TCP after a reset or a failed keepalive.
  """
  return _has_event(transport, 0)


class LinkEvents(typing.Protocol):
  """Receives the events of both sides of a link."""

  def on_connected(self, side: "Side") -> None:
    """Called when a side has its transport."""
    ...

  def on_early(self, data: bytes) -> None:
    """Called with the client's data until the upstream is connected."""
    ...

  def on_ended(self, side: "Side") -> None:
    """Called when a side's peer sends no more, before that is passed on."""
    ...

  def on_lost(self, side: "Side") -> None:
    """Called when a side is closed."""
    ...


class Side(asyncio.Protocol):
  """One of a link's two connections; forwards its data to the other one."""

  transport: Any = None  # None before it is connected.
  other: "Side"

  def __init__(self, link: LinkEvents):
    self._link = link
    self.received = 0  # bytes
    self.ended = False  # The peer will send no more.
    self.lost = False

  def connection_made(self, transport):
    self.transport = transport
    transport.set_write_buffer_limits(high=_HIGH_WATER, low=_LOW_WATER)
    _configure(transport.get_extra_info("socket"))
    self._link.on_connected(self)

  def data_received(self, data):
    self.received += len(data)
    if self.other.transport is None:
      self._link.on_early(data)
    else:
      self.other.transport.write(data)

  def eof_received(self):
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
    if not self.other.transport.is_closing():
      self.other.transport.pause_reading()

  def resume_writing(self):
    if not self.other.transport.is_closing():
      self.other.transport.resume_reading()

  def connection_lost(self, exc):
    del exc  # A reset is handled like any other end: clients connect again.
    self.lost = True
    self._link.on_lost(self)

  def buffered(self) -> int:
    """Returns the bytes that wait to be sent."""
    if self.transport is None or self.lost:
      return 0
    return self.transport.get_write_buffer_size()


def _configure(connection: socket.socket) -> None:
  """Disables Nagle's delay, and enables the detection of vanished peers."""
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
  if transport.is_closing():
    return True
  poll = select.poll()
  # The kernel reports POLLHUP and POLLERR besides `events`.
  poll.register(transport.get_extra_info("socket").fileno(), events)
  return bool(poll.poll(0))
