"""Relay link: one client's connection, joined to one of the upstream's."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from replay import relay_gate, relay_peer

# What each HTTP/2 client, such as gRPC's, sends first (RFC 9113, 3.4).
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

# Bytes that one side may have in the relay before the other side is no longer
# read, and before it is read again. Twice what one read brings at most.
_HIGH_WATER = 512 * 1024
_LOW_WATER = 128 * 1024

# Seconds between two looks at a client that has ended its side and may be gone:
# the loop tells no more of a connection that it does not read.
_LOOK_PERIOD_S = 1.0


class Calls(NamedTuple):
  """What links ask of their relay, all in the loop's thread.

  Attributes:
    admit: whether a client that has just connected may stay.
    connect: connects a protocol to the upstream; False if it cannot be reached.
    broke: the upstream ended an established link whose client had not.
    ended: both sides are closed; called once for each that `admit` saw.
  """

  admit: "Callable[[Link], bool]"
  connect: Callable[[asyncio.Protocol], Awaitable[bool]]
  broke: "Callable[[Link], None]"
  ended: "Callable[[Link], None]"


class Side(asyncio.Protocol):
  """One of a link's two connections; passes on to the other what it reads."""

  transport: Any = None  # None before it is connected.
  other: "Side"

  def __init__(self, link: "Link"):
    self._link = link
    self.received = 0  # bytes
    self.ended = False  # The peer will send no more.
    self.lost = False

  def connection_made(self, transport):
    self.transport = transport
    transport.set_write_buffer_limits(high=_HIGH_WATER, low=_LOW_WATER)
    relay_peer.configure(transport.get_extra_info("socket"))
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
    self.other.transport.write_eof()
    # The other direction may go on. When both have ended, both close.
    return not self.other.ended

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

  def __init__(self, calls: Calls, preface_timeout_s: float):
    """Makes the sides; `client` is to be given to the listening server.

    Args:
      calls: to the relay.
      preface_timeout_s: seconds for the client to send the preface.
    """
    self.client = Side(self)
    self.server = Side(self)
    self.client.other, self.server.other = self.server, self.client
    self.pid = 0  # The client's process; 0 is one that the kernel cannot tell.
    self._calls = calls
    self._preface_timeout_s = preface_timeout_s
    # A timer: until the preface is there, and again when the client has ended.
    self._timer: Any = None
    self._early = b""  # Read before there was somewhere to put it.
    self._opening: Any = None  # A task, from the preface on.
    self._broken = False
    self._aborted = False
    self._over = False

  @property
  def refused(self) -> bool:
    """Whether it ended without the preface, or was not admitted."""
    return self._opening is None and self.client.lost and not self._aborted

  @property
  def received(self) -> tuple[int, int]:
    """Bytes from the client and from the upstream."""
    return self.client.received, self.server.received

  def buffered(self) -> int:
    """Bytes that were read and are not yet sent."""
    waiting = self.client.buffered() + self.server.buffered()
    return waiting + len(self._early)

  def abort(self) -> None:
    """Closes both sides now; what is buffered is dropped."""
    self._aborted = True
    if self._opening is not None:
      self._opening.cancel()
    for side in (self.client, self.server):
      if side.transport is not None and not side.lost:
        side.transport.abort()

  def on_connected(self, side: Side) -> None:
    """Called by a side when it has its transport."""
    if side is self.server:
      if self.client.lost:
        side.transport.abort()
      return
    self.pid = relay_gate.pid_of(side.transport.get_extra_info("socket"))
    if self._calls.admit(self):
      self._timer = asyncio.get_running_loop().call_later(
        self._preface_timeout_s, side.transport.abort
      )
    else:
      side.transport.abort()

  def on_early(self, data: bytes) -> None:
    """Called by the client's side with what comes before there is a server."""
    self._early += data
    if not PREFACE.startswith(self._early[: len(PREFACE)]):
      self.client.transport.abort()
    elif len(self._early) >= len(PREFACE):
      self._timer.cancel()
      # Keep the one chunk, and read no more until it can be passed on.
      self.client.transport.pause_reading()
      self._opening = asyncio.get_running_loop().create_task(self._open())
      self._opening.add_done_callback(self._on_opened)

  def on_ended(self, side: Side) -> None:
    """Called by a side when its peer has ended, before that is passed on."""
    if side is self.server:
      self._report_if_broken()
    elif self.server.transport is not None:
      self._look_after_client()

  def on_lost(self, side: Side) -> None:
    """Called by a side when it is closed; lets the other send its rest."""
    if side is self.server:
      self._report_if_broken()
    elif self._timer is not None:
      self._timer.cancel()
    if side.other.transport is not None:
      side.other.transport.close()
    elif self._opening is not None:
      self._opening.cancel()
    self._end_if_closed()

  def _report_if_broken(self) -> None:
    """Tells the relay, once, if it is the upstream that ended this link."""
    if self._broken or relay_peer.has_ended(self.client.transport):
      return
    self._broken = True
    self._calls.broke(self)

  def _look_after_client(self) -> None:
    """Closes, once the client is gone, what its end alone leaves open."""
    if relay_peer.is_gone(self.client.transport):
      self.client.transport.abort()
    else:
      self._timer = asyncio.get_running_loop().call_later(
        _LOOK_PERIOD_S, self._look_after_client
      )

  async def _open(self) -> None:
    connected = False
    try:
      connected = await self._calls.connect(self.server)
    finally:
      if not connected:
        # gRPC takes a closed connection for a server that is not there, and
        # tries again by itself.
        self.client.transport.abort()
        if self.server.transport is not None:
          # Given up while it was made: uvloop may tell it of no end.
          self.server.transport.abort()
          self.server.lost = True
      elif not self.client.transport.is_closing() and not self.server.lost:
        early, self._early = self._early, b""
        self.server.transport.write(early)
        self.client.transport.resume_reading()

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
    opened = self._opening is None or self._opening.done()
    if self.client.lost and server_closed and opened and not self._over:
      self._over = True
      self._calls.ended(self)
