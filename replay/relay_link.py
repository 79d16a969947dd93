"""Relay link: one client's connection, joined to one of the upstream's."""

import asyncio
import socket
from collections.abc import Awaitable, Callable
from typing import Any

# Bytes that one side may have in the relay before the other side is no longer
# read, and before it is read again. Twice what one read brings at most.
_HIGH_WATER = 512 * 1024
_LOW_WATER = 128 * 1024

# Seconds: a peer that vanished without a word is noticed after about
# 60 + 3 * 20.
_KEEPALIVE_IDLE_S = 60
_KEEPALIVE_INTERVAL_S = 20
_KEEPALIVE_PROBES = 3


class Side(asyncio.Protocol):
  """One of a link's two connections; passes on to the other what it reads."""

  transport: Any = None  # None before it is connected.
  other: "Side"

  def __init__(self, link: "Link"):
    self._link = link
    self.received = 0  # bytes
    self.lost = False
    self._ended = False  # The peer will send no more.
    self._early = b""  # Read before there was somewhere to put it.

  def connection_made(self, transport):
    self.transport = transport
    transport.set_write_buffer_limits(high=_HIGH_WATER, low=_LOW_WATER)
    _configure(transport.get_extra_info("socket"))
    self._link.on_connected(self)

  def data_received(self, data):
    self.received += len(data)
    if self.other.transport is None:
      # uvloop begins to read whatever `connection_made` asks for: keep the one
      # chunk that came, and read no more until it can be passed on.
      self._early += data
      self.transport.pause_reading()
    else:
      self.other.transport.write(data)

  def eof_received(self):
    self._ended = True
    if self.other.transport is None:
      return True
    if self.other.transport.is_closing():
      return False
    self.other.transport.write_eof()
    # The other direction may go on. When both have ended, both close.
    return not self.other._ended

  def pass_on_early(self):
    """Called when the other side is connected."""
    early, self._early = self._early, b""
    self.other.transport.write(early)
    if self._ended:
      self.other.transport.write_eof()
    else:
      self.transport.resume_reading()

  def pause_writing(self):
    if not self.other.transport.is_closing():
      self.other.transport.pause_reading()

  def resume_writing(self):
    if not self.other.transport.is_closing():
      self.other.transport.resume_reading()

  def connection_lost(self, exc):
    del exc  # A reset is an end like any other: the peers try again.
    self.lost = True
    self._link.on_lost(self)

  def buffered(self) -> int:
    """Bytes that wait to be sent."""
    if self.transport is None or self.lost:
      return 0
    return self.transport.get_write_buffer_size()


class Link:
  """Owns both sides, from a client's arrival until both are closed."""

  def __init__(
    self,
    connect: Callable[[asyncio.Protocol], Awaitable[bool]],
    on_end: Callable[["Link"], None],
  ):
    """Makes the sides; `client` is to be given to the listening server.

    Args:
      connect: connects a protocol to the upstream; False if it cannot be
        reached.
      on_end: called once, when both sides are closed.
    """
    self.client = Side(self)
    self.server = Side(self)
    self.client.other, self.server.other = self.server, self.client
    self._connect = connect
    self._on_end = on_end
    self._opening: Any = None  # A task, from the client's arrival on.

  def buffered(self) -> int:
    """Bytes that were read and are not yet sent."""
    return self.client.buffered() + self.server.buffered()

  def abort(self) -> None:
    """Closes both sides now; what is buffered is dropped."""
    if self._opening is not None:
      self._opening.cancel()
    for side in (self.client, self.server):
      if side.transport is not None and not side.lost:
        side.transport.abort()

  def on_connected(self, side: Side) -> None:
    """Called by a side when it has its transport."""
    if side is self.client:
      self._opening = asyncio.get_running_loop().create_task(self._open())
      self._opening.add_done_callback(self._on_opened)
    elif self.client.lost:
      side.transport.abort()

  def on_lost(self, side: Side) -> None:
    """Called by a side when it is closed; lets the other send its rest."""
    if side.other.transport is None:
      self._opening.cancel()
    else:
      side.other.transport.close()
    self._end_if_closed()

  async def _open(self) -> None:
    connected = False
    try:
      connected = await self._connect(self.server)
    finally:
      if not connected:
        # gRPC takes a closed connection for a server that is not there, and
        # tries again by itself.
        self.client.transport.abort()
      elif not self.client.lost and not self.server.lost:
        self.client.pass_on_early()

  def _on_opened(self, opening: asyncio.Task) -> None:
    error = None if opening.cancelled() else opening.exception()
    if error is not None:
      message = "a link to the upstream could not be opened"
      opening.get_loop().call_exception_handler(
        {"message": message, "exception": error}
      )
    self._end_if_closed()

  def _end_if_closed(self) -> None:
    server_closed = self.server.transport is None or self.server.lost
    if self.client.lost and server_closed and self._opening.done():
      self._on_end(self)


def _configure(connection: socket.socket) -> None:
  if connection.family == socket.AF_UNIX:
    return
  # An item is a few small writes which the other end waits for.
  connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
  connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
  for option, value in (
    (socket.TCP_KEEPIDLE, _KEEPALIVE_IDLE_S),
    (socket.TCP_KEEPINTVL, _KEEPALIVE_INTERVAL_S),
    (socket.TCP_KEEPCNT, _KEEPALIVE_PROBES),
  ):
    connection.setsockopt(socket.IPPROTO_TCP, option, value)
