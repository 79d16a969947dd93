"""Relay TLS: connections between two relays that authenticate each other.

The listening relay sends one byte, the ready message, when it has reached its
upstream. The connecting relay waits for this byte before it treats the
connection as established. Otherwise, while the upstream is down, each new
stream of a worker would seem to open and then to break.
"""

import asyncio
import ssl
from typing import Any, Literal, TypeAlias

from slipway.replay.transport import relay_listener

# Value in place of a TLS context: the two relays use plaintext, without
# authentication.
INSECURE: Literal["insecure"] = "insecure"
# Type of `tls` arguments: a TLS context, or INSECURE for plaintext.
Tls: TypeAlias = ssl.SSLContext | Literal["insecure"]

# Ready message: the byte by which a relay reports that it has reached its
# upstream. Forwarded bytes follow it.
READY = b"\1"

# Timeout in seconds of a TLS shutdown: to send buffered bytes and to exchange
# close notifications. Bytes that are left afterwards are dropped.
SHUTDOWN_TIMEOUT_S = 5.0


async def dial(
  loop: asyncio.AbstractEventLoop,
  address: str,
  protocol: asyncio.Protocol,
  tls: Tls,
) -> Any:
  """Connects a protocol to the upstream of another relay.

  Args:
    address: 'host:port' of the other relay, whose certificate is for the host.
    protocol: protocol whose `connection_made` is called when the other relay
      has sent the ready message.

  Raises:
    OSError: the other relay or its upstream is down, or the other relay has no
      certificate of the cluster's authority for that host.
  """
  ready: asyncio.Future = loop.create_future()
  waiting = _ReadyMessageProtocol(protocol, ready)
  options: Any = {}
  if tls != INSECURE:
    options = {"ssl": tls, "ssl_shutdown_timeout": SHUTDOWN_TIMEOUT_S}
  try:
    host, port = relay_listener.host_and_port("upstream", address)
    await loop.create_connection(lambda: waiting, host, port, **options)
    return await ready
  except BaseException:
    ready.cancel()
    waiting.abort()
    raise


class _ReadyMessageProtocol(asyncio.Protocol):
  """Protocol of a connection until its ready message arrives."""

  _transport: Any = None

  def __init__(self, protocol: asyncio.Protocol, ready: asyncio.Future):
    self._protocol = protocol
    self._ready = ready

  def abort(self) -> None:
    """Closes the connection immediately, if there is one."""
    if self._transport is not None:
      self._transport.abort()

  def connection_made(self, transport):
    self._transport = transport

  def data_received(self, data):
    """Hands the connection over after the ready message; aborts otherwise."""
    if not data.startswith(READY):
      self.abort()
      return
    self._transport.set_protocol(self._protocol)
    self._protocol.connection_made(self._transport)
    if len(data) > len(READY):
      self._protocol.data_received(data[len(READY) :])
    if not self._ready.done():
      self._ready.set_result(self._transport)

  def connection_lost(self, exc):
    """Fails the future if no ready message has arrived."""
    if not self._ready.done():
      self._ready.set_exception(
        exc or ConnectionResetError("the relay cannot reach its upstream")
      )
