"""Relay TLS: connections between two relays that authenticate each other.

The relay that listens sends one byte, the ready message, when it has reached
its own upstream. So the relay that connects can distinguish an upstream that is
down from a relay that is down. Otherwise it would report to a worker that its
stream has broken, each time the worker opens one.
"""

import asyncio
import ssl
from typing import Any, Literal, TypeAlias

from slipway.replay.transport import relay_listener

# The name in the certificates of all machines, whatever their addresses.
NAME = "slipway"

# In place of a context: two relays use plaintext, and trust every peer.
INSECURE: Literal["insecure"] = "insecure"
Tls: TypeAlias = ssl.SSLContext | Literal["insecure"]

# The ready message: the upstream is reached. What follows is relayed.
READY = b"\1"

# Seconds to send what is buffered and to confirm the end when one side ends;
# what is left then is dropped.
SHUTDOWN_TIMEOUT_S = 5.0


async def dial(
  loop: asyncio.AbstractEventLoop,
  address: str,
  protocol: asyncio.Protocol,
  tls: Tls,
) -> Any:
  """Connects a protocol to the upstream of another relay.

  Args:
    loop: uvloop's, which runs this.
    address: 'host:port' or 'unix:PATH' of the relay.
    protocol: gets its connection once the relay has reached its upstream.
    tls: context from `certificates.Identity.client_context`, or INSECURE.

  Returns:
    The transport.

  Raises:
    OSError: the relay or its upstream is down, or has no certificate of the
      cluster's certificate authority.
  """
  ready: asyncio.Future = loop.create_future()
  waiting = _ReadyMessageProtocol(protocol, ready)
  options: Any = {}
  if tls != INSECURE:
    options = {
      "ssl": tls,
      "server_hostname": NAME,
      "ssl_shutdown_timeout": SHUTDOWN_TIMEOUT_S,
    }
  try:
    path = relay_listener.path_of(address)
    if path is not None:
      await loop.create_unix_connection(lambda: waiting, path, **options)
    else:
      host, port = relay_listener.host_and_port("upstream", address)
      await loop.create_connection(lambda: waiting, host, port, **options)
    return await ready
  except BaseException:
    ready.cancel()
    waiting.abort()
    raise


class _ReadyMessageProtocol(asyncio.Protocol):
  """Waits for the ready message, then hands over to another protocol."""

  _transport: Any = None

  def __init__(self, protocol: asyncio.Protocol, ready: asyncio.Future):
    self._protocol = protocol
    self._ready = ready

  def abort(self) -> None:
    if self._transport is not None:
      self._transport.abort()

  def connection_made(self, transport):
    self._transport = transport

  def data_received(self, data):
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
    if not self._ready.done():
      self._ready.set_exception(
        exc or ConnectionResetError("the relay cannot reach its upstream")
      )
