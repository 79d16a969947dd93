"""Relay TLS: connections between two relays that authenticate each other.

The relay that listens says one byte when it has reached its own upstream, so
that the other one can tell an upstream that is there from a relay alone: else a
worker would be told that its streams break, each time it opens one.
"""

import asyncio
import ssl
from typing import Any, Literal, TypeAlias

from slipway.replay.transport import relay_listener

# The name in the certificates of all machines, whatever their addresses.
NAME = "slipway"

# In place of a context: two relays that speak in plain, and trust everybody.
INSECURE: Literal["insecure"] = "insecure"
Tls: TypeAlias = ssl.SSLContext | Literal["insecure"]

# Says that the upstream is reached; what follows is relayed.
GREETING = b"\1"

# Seconds for the rest to be sent and the end to be confirmed when one side
# ends; later it is dropped.
SHUTDOWN_TIMEOUT_S = 5.0


async def dial(
  loop: asyncio.AbstractEventLoop,
  address: str,
  protocol: asyncio.Protocol,
  tls: Tls,
) -> Any:
  """Connects a protocol to what is behind a relay that greets.

  Args:
    loop: uvloop's, which runs this.
    address: 'host:port' or 'unix:PATH' of the relay.
    protocol: told of its connection once the relay has reached its upstream.
    tls: of `certificates.Identity.client_context`, or INSECURE.

  Returns:
    The transport.

  Raises:
    OSError: the relay or its upstream is not there, or is no machine of the
      cluster.
  """
  greeted: asyncio.Future = loop.create_future()
  waiting = _Waiting(protocol, greeted)
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
    return await greeted
  except BaseException:
    greeted.cancel()
    waiting.abort()
    raise


class _Waiting(asyncio.Protocol):
  """Waits for the greeting, then gives its connection to another protocol."""

  _transport: Any = None

  def __init__(self, protocol: asyncio.Protocol, greeted: asyncio.Future):
    self._protocol = protocol
    self._greeted = greeted

  def abort(self) -> None:
    if self._transport is not None:
      self._transport.abort()

  def connection_made(self, transport):
    self._transport = transport

  def data_received(self, data):
    if not data.startswith(GREETING):
      self.abort()
      return
    self._transport.set_protocol(self._protocol)
    self._protocol.connection_made(self._transport)
    if len(data) > len(GREETING):
      self._protocol.data_received(data[len(GREETING) :])
    if not self._greeted.done():
      self._greeted.set_result(self._transport)

  def connection_lost(self, exc):
    if not self._greeted.done():
      self._greeted.set_exception(
        exc or ConnectionResetError("the relay cannot reach its upstream")
      )
