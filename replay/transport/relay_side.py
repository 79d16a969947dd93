"""Relay side: one connection of a link, which passes on what it reads."""

import asyncio
import typing
from typing import Any

from slipway.replay.transport import relay_peer

# Bytes that one side may have in the relay before the other side is no longer
# read, and before it is read again. Twice what one read brings at most.
_HIGH_WATER = 512 * 1024
_LOW_WATER = 128 * 1024


class Owner(typing.Protocol):
  """The link that has both sides, and is told of them."""

  def on_connected(self, side: "Side") -> None:
    """Called by a side when it has its transport."""
    ...

  def on_early(self, data: bytes) -> None:
    """Called by the client's side with what comes before there is a server."""
    ...

  def on_ended(self, side: "Side") -> None:
    """Called by a side when its peer has ended, before that is passed on."""
    ...

  def on_lost(self, side: "Side") -> None:
    """Called by a side when it is closed."""
    ...


class Side(asyncio.Protocol):
  """One of a link's two connections; passes on to the other what it reads."""

  transport: Any = None  # None before it is connected.
  other: "Side"

  def __init__(self, link: Owner):
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
    if not (
      self.transport.can_write_eof() and self.other.transport.can_write_eof()
    ):
      # TLS ends both directions at once.
      self.other.transport.close()
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
