"""Relay link: pairs a client's connection with a connection to the upstream."""

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

# First 24 bytes that each HTTP/2 client, such as gRPC, sends (RFC 9113, 3.4).
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

# Seconds between two checks whether a client that has ended its sending has
# also closed its connection. The event loop does not report that, as it no
# longer reads the connection.
_CHECK_PERIOD_S = 1.0


class LinkCallbacks(NamedTuple):
  """Callbacks of a relay, in its event loop, and the preface of its clients.

  Attributes:
    admit: returns whether to serve the client of a new link.
    connect: connects a protocol to the upstream; returns whether it succeeded.
    on_broken: called with a link that the upstream closed before the client.
    on_ended: called once with each admitted link when both sides are closed.
    preface: bytes with which every client has to begin.
  """

  admit: "Callable[[Link], bool]"
  connect: Callable[[asyncio.Protocol], Awaitable[bool]]
  on_broken: "Callable[[Link], None]"
  on_ended: "Callable[[Link], None]"
  preface: bytes = PREFACE


class Link:
  """A relayed connection: the client's side and the upstream's side.

  Attributes:
    client: connection to the client.
    server: connection to the upstream.
    pid: process id of the client; 0: unknown, as for TCP.
  """

  def __init__(self, callbacks: LinkCallbacks, preface_timeout_s: float):
    """Makes a link without connections.

    Next, connect the protocol `client` to a client, or call `start_handshake`.

    Args:
      preface_timeout_s: seconds within which the client has to send the preface
        or, with TLS, its certificate.
    """
    self.client = relay_side.Side(self)
    self.server = relay_side.Side(self)
    self.client.other, self.server.other = self.server, self.client
    self.pid = 0
    self._callbacks = callbacks
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
    """Whether the client was rejected, or has disconnected too early.

    Too early means before its preface or, with TLS, its handshake was complete.
    False while the client is connected, and after `abort`.
    """
    return self._opening is None and self.client.lost and not self._aborted

  @property
  def is_in_handshake(self) -> bool:
    """Whether the TLS handshake with the client is under way."""
    return self._handshake is not None and not self._handshake.done()

  @property
  def received(self) -> tuple[int, int]:
    """Numbers of bytes received from the client and from the upstream."""
    return self.client.received, self.server.received

  def buffered(self) -> int:
    """Returns the number of bytes that were received and not yet forwarded."""
    waiting = self.client.buffered() + self.server.buffered()
    return waiting + len(self._early)

  def start_handshake(
    self, connection: socket.socket, tls: relay_tls.Tls
  ) -> None:
    """Admits another relay as the client, and starts its TLS handshake.

    If the relay is not admitted, its connection is closed. After the handshake,
    the link connects to the upstream, and then sends the ready message to the
    client (`relay_tls`).

    Args:
      connection: newly accepted connection, which the link will close.
      tls: context that verifies the client, or INSECURE, for plaintext without
        verification.
    """
    if self._callbacks.admit(self):
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
    """Disconnects the client while its TLS handshake is under way."""
    self._handshake.cancel()

  def abort(self) -> None:
    """Closes both sides immediately, and drops buffered bytes."""
    self._aborted = True
    if self._handshake is not None:
      self._handshake.cancel()
    if self._opening is not None:
      self._opening.cancel()
    for side in (self.client, self.server):
      if side.transport is not None and not side.lost:
        side.transport.abort()

  def close_upstream(self) -> None:
    """Closes the upstream's side, as if the upstream had closed it."""
    if self.server.transport is not None and not self.server.lost:
      self.server.transport.abort()

  def on_connected(self, side: relay_side.Side) -> None:
    """Admits a client without TLS, and starts the timeout of its preface.

    Sends a client with TLS the ready message when the upstream is connected.
    """
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
    if self._callbacks.admit(self):
      self._timer = asyncio.get_running_loop().call_later(
        self._preface_timeout_s, side.transport.abort
      )
    else:
      side.transport.abort()

  def on_early(self, data: bytes) -> None:
    """Buffers data that a client sends before the upstream is connected.

    Disconnects the client if the data does not begin with the preface. Connects
    to the upstream once the preface is complete.
    """
    self._early += data
    if self._handshake is not None:
      return  # Read before the pause; clients wait for the ready message.
    preface = self._callbacks.preface
    if not preface.startswith(self._early[: len(preface)]):
      self.client.transport.abort()
    elif len(self._early) >= len(preface):
      self._timer.cancel()
      self._start_opening()

  def on_ended(self, side: relay_side.Side) -> None:
    """Handles the end of data from a side's peer, before it is forwarded.

    Reports a broken link if the peer is the upstream. Otherwise checks from
    time to time whether the client has also closed.
    """
    if side is self.server:
      self._report_if_broken()
    elif self.server.transport is not None:
      self._watch_half_closed_client()

  def on_lost(self, side: relay_side.Side) -> None:
    """Closes the other side of one that has closed, once its buffer is sent."""
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
    """Calls `on_broken` once, if the upstream has closed before the client."""
    if self._broken or relay_side.has_ended(self.client.transport):
      return
    self._broken = True
    self._callbacks.on_broken(self)

  def _watch_half_closed_client(self) -> None:
    if relay_side.is_closed(self.client.transport):
      self.client.transport.abort()
    else:
      self._timer = asyncio.get_running_loop().call_later(
        _CHECK_PERIOD_S, self._watch_half_closed_client
      )

  async def _authenticate(
    self, connection: socket.socket, tls: relay_tls.Tls
  ) -> None:
    """Performs the TLS handshake, then starts to connect to the upstream."""
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
      self._start_opening()

  def _on_handshake_done(
    self, handshake: asyncio.Task, connection: socket.socket
  ) -> None:
    """Reports an error of the handshake, and closes a client that failed."""
    self._report_error(handshake, "a client could not be authenticated")
    if self._opening is None:
      # The loop reports no end of a connection that it gave up early.
      connection.close()
      self.client.lost = True
    self._end_if_closed()

  def _start_opening(self) -> None:
    """Stops reading the client, and starts to connect to the upstream."""
    # Keep this chunk, and read no more until it can be forwarded.
    self.client.transport.pause_reading()
    self._opening = asyncio.get_running_loop().create_task(self._open())
    self._opening.add_done_callback(self._on_opened)

  async def _open(self) -> None:
    """Connects to the upstream; forwards early data, or closes the client."""
    connected = False
    try:
      connected = await self._callbacks.connect(self.server)
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
    """Reports an error of `_open`; ends the link if both sides are closed."""
    self._report_error(opening, "a link to the upstream could not be opened")
    self._end_if_closed()

  def _report_error(self, task: asyncio.Task, message: str) -> None:
    """Passes the exception of a task, if any, to the loop's error handler."""
    error = None if task.cancelled() else task.exception()
    if error is not None:
      task.get_loop().call_exception_handler(
        {"message": message, "exception": error}
      )

  def _end_if_closed(self) -> None:
    """Calls `on_ended` once, when both sides are closed."""
    server_closed = self.server.transport is None or self.server.lost
    opened = self._opening is None or self._opening.done()
    if self.client.lost and server_closed and opened and not self._over:
      self._over = True
      self._callbacks.on_ended(self)
