"""Relay link: a client's connection and its connection to the upstream."""

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from slipway.replay.transport import (
  relay_side,
  relay_tls,
  unix_server,
)

# What each HTTP/2 client, such as gRPC's, sends first (RFC 9113, 3.4).
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

# Seconds between two checks of a client that sends no more and may have closed:
# the loop reports no event of a connection that it does not read.
_CHECK_PERIOD_S = 1.0


class Calls(NamedTuple):
  """Functions of the relay that links call, all in the loop's thread.

  Attributes:
    admit: returns whether to serve a client that has just connected.
    connect: connects a protocol to the upstream; returns False if the upstream
      cannot be reached.
    on_broken: receives a link whose upstream ended it before its client did.
    on_ended: receives a link of which both sides are closed; called once for
      each link that was passed to `admit`.
    preface: first bytes of a client.
  """

  admit: "Callable[[Link], bool]"
  connect: Callable[[asyncio.Protocol], Awaitable[bool]]
  on_broken: "Callable[[Link], None]"
  on_ended: "Callable[[Link], None]"
  preface: bytes = PREFACE


class Link:
  """Both sides of a relayed connection, until both are closed."""

  def __init__(self, calls: Calls, preface_timeout_s: float):
    """Makes the sides; then `client` or `start_handshake` accepts a client.

    Args:
      calls: functions of the relay.
      preface_timeout_s: seconds for the client to send the preface or its
        certificate.
    """
    self.client = relay_side.Side(self)
    self.server = relay_side.Side(self)
    self.client.other, self.server.other = self.server, self.client
    self.pid = 0  # The client's process; 0: unknown, as for TCP.
    self._calls = calls
    self._preface_timeout_s = preface_timeout_s
    # A timer: limits the wait for the preface, and later watches the ended
    # client.
    self._timer: Any = None
    self._early = b""  # Received before the upstream is connected.
    self._handshake: Any = None  # A task, for a client by TLS.
    self._opening: Any = None  # A task, from the preface or certificate on.
    self._broken = False
    self._aborted = False
    self._over = False

  @property
  def refused(self) -> bool:
    """Whether the client was rejected, or ended before it had identified."""
    return self._opening is None and self.client.lost and not self._aborted

  @property
  def is_in_handshake(self) -> bool:
    """Whether the TLS handshake with the client is under way."""
    return self._handshake is not None and not self._handshake.done()

  @property
  def received(self) -> tuple[int, int]:
    """Bytes received from the client and from the upstream."""
    return self.client.received, self.server.received

  def buffered(self) -> int:
    """Returns the number of bytes that were read and not yet sent."""
    waiting = self.client.buffered() + self.server.buffered()
    return waiting + len(self._early)

  def start_handshake(
    self, connection: socket.socket, tls: relay_tls.Tls
  ) -> None:
    """Authenticates another relay as the client.

    The link sends the ready message once the upstream is connected; see
    `relay_tls`.

    Args:
      connection: a connection that was just accepted; the link closes it.
      tls: context that verifies the client; INSECURE verifies nothing.
    """
    if self._calls.admit(self):
      self._handshake = asyncio.get_running_loop().create_task(
        self._authenticate(connection, tls)
      )
      self._handshake.add_done_callback(
        lambda handshake: self._on_handshake_done(handshake, connection)
      )
    else:
      connection.close()
      self.client.lost = True
      self._end_if_closed()

  def cancel_handshake(self) -> None:
    """Closes a client whose handshake is under way."""
    self._handshake.cancel()

  def abort(self) -> None:
    """Closes both sides now, and drops buffered bytes."""
    self._aborted = True
    if self._handshake is not None:
      self._handshake.cancel()
    if self._opening is not None:
      self._opening.cancel()
    for side in (self.client, self.server):
      if side.transport is not None and not side.lost:
        side.transport.abort()

  def close_upstream(self) -> None:
    """Closes the connection to the upstream, as if the upstream had ended."""
    if self.server.transport is not None and not self.server.lost:
      self.server.transport.abort()

  def on_connected(self, side: relay_side.Side) -> None:
    """Called when a side has its transport."""
    if side is self.server:
      if self.client.lost:
        side.transport.abort()
      elif self._handshake is not None:
        # Now, as the upstream may send first.
        self.client.transport.write(relay_tls.READY)
      return
    if self._handshake is not None:
      return  # `_authenticate` continues, where reading can be paused.
    self.pid = unix_server.pid_of(side.transport.get_extra_info("socket"))
    if self._calls.admit(self):
      self._timer = asyncio.get_running_loop().call_later(
        self._preface_timeout_s, side.transport.abort
      )
    else:
      side.transport.abort()

  def on_early(self, data: bytes) -> None:
    """Called with the client's data until the upstream is connected."""
    self._early += data
    if self._handshake is not None:
      return  # Read before the pause; clients wait for the ready message.
    preface = self._calls.preface
    if not preface.startswith(self._early[: len(preface)]):
      self.client.transport.abort()
    elif len(self._early) >= len(preface):
      self._timer.cancel()
      self._open_soon()

  def on_ended(self, side: relay_side.Side) -> None:
    """Called when a side's peer sends no more, before that is passed on."""
    if side is self.server:
      self._report_if_broken()
    elif self.server.transport is not None:
      self._watch_half_closed_client()

  def on_lost(self, side: relay_side.Side) -> None:
    """Called when a side has closed; closes the other after its buffer."""
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
    """Reports to the relay, once, a link that the upstream ended."""
    if self._broken or relay_side.has_ended(self.client.transport):
      return
    self._broken = True
    self._calls.on_broken(self)

  def _watch_half_closed_client(self) -> None:
    """Closes the link once a client that sends no more also reads no more."""
    if relay_side.is_closed(self.client.transport):
      self.client.transport.abort()
    else:
      self._timer = asyncio.get_running_loop().call_later(
        _CHECK_PERIOD_S, self._watch_half_closed_client
      )

  async def _authenticate(
    self, connection: socket.socket, tls: relay_tls.Tls
  ) -> None:
    loop: Any = asyncio.get_running_loop()
    options: Any = {}
    if tls != relay_tls.INSECURE:
      options = {
        "ssl": tls,
        "ssl_handshake_timeout": self._preface_timeout_s,
        "ssl_shutdown_timeout": relay_tls.SHUTDOWN_TIMEOUT_S,
      }
    with contextlib.suppress(
      OSError
    ):  # An unauthenticated peer: counted when it is closed.
      await loop.connect_accepted_socket(
        lambda: self.client, connection, **options
      )
    if self.client.transport is not None:
      self._open_soon()

  def _on_handshake_done(
    self, handshake: asyncio.Task, connection: socket.socket
  ) -> None:
    self._report_error(handshake, "a client could not be authenticated")
    if self._opening is None:
      # The loop reports no end of a connection that it gave up early.
      connection.close()
      self.client.lost = True
    self._end_if_closed()

  def _open_soon(self) -> None:
    # Keep this chunk, and read no more until it can be forwarded.
    self.client.transport.pause_reading()
    self._opening = asyncio.get_running_loop().create_task(self._open())
    self._opening.add_done_callback(self._on_opened)

  async def _open(self) -> None:
    connected = False
    try:
      connected = await self._calls.connect(self.server)
    finally:
      if not connected:
        # gRPC handles a closed connection like a server that is down, and
        # connects again by itself.
        self.client.transport.abort()
        if self.server.transport is not None:
          # Given up while connecting: uvloop may report no end of it.
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
      self._calls.on_ended(self)
