"""Relay link: one client's connection, joined to one of the upstream's."""

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from slipway.replay.transport import (
  relay_peer,
  relay_side,
  relay_tls,
  unix_server,
)

# What each HTTP/2 client, such as gRPC's, sends first (RFC 9113, 3.4).
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

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
    preface: first bytes of a client.
  """

  admit: "Callable[[Link], bool]"
  connect: Callable[[asyncio.Protocol], Awaitable[bool]]
  broke: "Callable[[Link], None]"
  ended: "Callable[[Link], None]"
  preface: bytes = PREFACE


class Link:
  """Owns both sides, from a client's arrival until both are closed."""

  def __init__(self, calls: Calls, preface_timeout_s: float):
    """Makes the sides; `client` is for a server, or `enter` to be called.

    Args:
      calls: to the relay.
      preface_timeout_s: seconds for the client to send the preface, or to
        show its certificate.
    """
    self.client = relay_side.Side(self)
    self.server = relay_side.Side(self)
    self.client.other, self.server.other = self.server, self.client
    self.pid = 0  # The client's process; 0 is one that the kernel cannot tell.
    self._calls = calls
    self._preface_timeout_s = preface_timeout_s
    # A timer: until the preface is there, and again when the client has ended.
    self._timer: Any = None
    self._early = b""  # Read before there was somewhere to put it.
    self._entering: Any = None  # A task, of a client by TLS.
    self._opening: Any = None  # A task, from the preface or certificate on.
    self._broken = False
    self._aborted = False
    self._over = False

  @property
  def refused(self) -> bool:
    """Whether it ended before it was known as a client, or was not admitted."""
    return self._opening is None and self.client.lost and not self._aborted

  @property
  def is_entering(self) -> bool:
    """Whether its client is about to show its certificate."""
    return self._entering is not None and not self._entering.done()

  @property
  def received(self) -> tuple[int, int]:
    """Bytes from the client and from the upstream."""
    return self.client.received, self.server.received

  def buffered(self) -> int:
    """Bytes that were read and are not yet sent."""
    waiting = self.client.buffered() + self.server.buffered()
    return waiting + len(self._early)

  def enter(self, connection: socket.socket, tls: relay_tls.Tls) -> None:
    """Begins with another relay, which has to show its certificate.

    It is greeted when the upstream is reached; see `relay_tls`.

    Args:
      connection: just accepted; the link's from now on.
      tls: what it is asked for; INSECURE is nothing.
    """
    if self._calls.admit(self):
      self._entering = asyncio.get_running_loop().create_task(
        self._enter(connection, tls)
      )
      self._entering.add_done_callback(
        lambda entering: self._on_entered(entering, connection)
      )
    else:
      connection.close()
      self.client.lost = True
      self._end_if_closed()

  def refuse(self) -> None:
    """Closes a client that is about to show its certificate."""
    self._entering.cancel()

  def abort(self) -> None:
    """Closes both sides now; what is buffered is dropped."""
    self._aborted = True
    if self._entering is not None:
      self._entering.cancel()
    if self._opening is not None:
      self._opening.cancel()
    for side in (self.client, self.server):
      if side.transport is not None and not side.lost:
        side.transport.abort()

  def leave(self) -> None:
    """Gives up the upstream that it is connected to, as if that had ended."""
    if self.server.transport is not None and not self.server.lost:
      self.server.transport.abort()

  def on_connected(self, side: relay_side.Side) -> None:
    """Called by a side when it has its transport."""
    if side is self.server:
      if self.client.lost:
        side.transport.abort()
      elif self._entering is not None:
        # Now, as the upstream may be the first to speak.
        self.client.transport.write(relay_tls.GREETING)
      return
    if self._entering is not None:
      return  # It goes on in `_enter`, from where reading can be paused.
    self.pid = unix_server.pid_of(side.transport.get_extra_info("socket"))
    if self._calls.admit(self):
      self._timer = asyncio.get_running_loop().call_later(
        self._preface_timeout_s, side.transport.abort
      )
    else:
      side.transport.abort()

  def on_early(self, data: bytes) -> None:
    """Called by the client's side with what comes before there is a server."""
    self._early += data
    if self._entering is not None:
      return  # Read before the pause; nobody speaks ahead of the greeting.
    preface = self._calls.preface
    if not preface.startswith(self._early[: len(preface)]):
      self.client.transport.abort()
    elif len(self._early) >= len(preface):
      self._timer.cancel()
      self._open_soon()

  def on_ended(self, side: relay_side.Side) -> None:
    """Called by a side when its peer has ended, before that is passed on."""
    if side is self.server:
      self._report_if_broken()
    elif self.server.transport is not None:
      self._look_after_client()

  def on_lost(self, side: relay_side.Side) -> None:
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

  async def _enter(self, connection: socket.socket, tls: relay_tls.Tls) -> None:
    loop: Any = asyncio.get_running_loop()
    options: Any = {}
    if tls != relay_tls.INSECURE:
      options = {
        "ssl": tls,
        "ssl_handshake_timeout": self._preface_timeout_s,
        "ssl_shutdown_timeout": relay_tls.SHUTDOWN_TIMEOUT_S,
      }
    with contextlib.suppress(OSError):  # A stranger: counted at its end.
      await loop.connect_accepted_socket(
        lambda: self.client, connection, **options
      )
    if self.client.transport is not None:
      self._open_soon()

  def _on_entered(
    self, entering: asyncio.Task, connection: socket.socket
  ) -> None:
    self._report_error(entering, "a client could not be let in")
    if self._opening is None:
      # The loop tells no end of what it gave up while it was made.
      connection.close()
      self.client.lost = True
    self._end_if_closed()

  def _open_soon(self) -> None:
    # Keep the one chunk, and read no more until it can be passed on.
    self.client.transport.pause_reading()
    self._opening = asyncio.get_running_loop().create_task(self._open())
    self._opening.add_done_callback(self._on_opened)

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
    self._report_error(opening, "a link to the upstream could not be opened")
    self._end_if_closed()

  def _report_error(self, task: asyncio.Task, message: str) -> None:
    error = None if task.cancelled() else task.exception()
    if error is not None:
      task.get_loop().call_exception_handler(
        {"message": message, "exception": error}
      )

  def _end_if_closed(self) -> None:
    server_closed = self.server.transport is None or self.server.lost
    opened = self._opening is None or self._opening.done()
    if self.client.lost and server_closed and opened and not self._over:
      self._over = True
      self._calls.ended(self)
