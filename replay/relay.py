"""Relay: passes bytes between a machine's workers and the Reverb server.

It understands nothing of what it passes, which is what makes it cheap: a relay
of gRPC messages in Python costs about ten times the CPU. Back-pressure goes
through it: when the server's rate limiter blocks inserts, the server stops
reading, the relay stops reading, and the worker waits, with at most a few
hundred kilobytes of each connection in the relay.

Works without Reverb and TensorFlow, so that it listens within milliseconds.

```python
relay = Relay('unix:/run/user/1000/slipway/relay', 'replay-host:7000')
relay.start()
client = reverb.Client(relay.address)
...
relay.close()
```
"""

import asyncio
import threading
from typing import Any, NamedTuple

import uvloop

from replay import relay_link, relay_listener

# Seconds for the upstream host to accept; the worker's gRPC tries again.
_CONNECT_TIMEOUT_S = 5.0

# Seconds that `close` waits for the thread, which needs milliseconds.
_CLOSE_TIMEOUT_S = 2.0


class RelayStats(NamedTuple):
  """What the relay has done since it was made.

  Attributes:
    connections_open: clients that are connected now.
    connections_total: clients that have ever been.
    connections_failed: those that were closed because the upstream could not be
      reached.
    bytes_up: received from clients.
    bytes_down: received from the upstream.
    bytes_buffered: received and not yet passed on; bounded by back-pressure.
  """

  connections_open: int
  connections_total: int
  connections_failed: int
  bytes_up: int
  bytes_down: int
  bytes_buffered: int


class Relay:
  """Listens for clients and gives each a connection to the upstream.

  Runs in a thread of its own from `start` to `close`.
  """

  def __init__(self, listen: str, upstream: str):
    """Checks the addresses; opens nothing.

    Args:
      listen: 'unix:PATH', which only this user may connect to, or 'host:port'.
      upstream: 'host:port' of the Reverb server, which need not run yet.

    Raises:
      ValueError: an address cannot be one.
    """
    relay_listener.check("listen", listen)
    self._listen = listen
    self._upstream = relay_listener.host_and_port("upstream", upstream)
    # From `start` on.
    self._loop: Any = None
    self._thread: threading.Thread | None = None
    self._listener: Any = None
    self._stop: Any = None
    self._links: set[relay_link.Link] = set()
    self._total = 0
    self._failed = 0
    self._bytes_up = 0  # of links that have ended
    self._bytes_down = 0
    self._error: BaseException | None = None

  @property
  def address(self) -> str:
    """What clients connect to; has the port that was chosen for port 0."""
    return self._listener.address if self._listener else self._listen

  def start(self) -> None:
    """Listens; returns as soon as clients can connect.

    Raises:
      ValueError: the port or path is in use, or cannot be listened on.
    """
    self._listener = relay_listener.Listener(self._listen)
    self._loop = uvloop.new_event_loop()
    self._loop.set_exception_handler(self._on_loop_error)
    self._stop = asyncio.Event()
    self._thread = threading.Thread(target=self._run, name="relay", daemon=True)
    self._thread.start()

  def check(self) -> None:
    """Raises what went wrong in the thread, if anything did.

    Raises:
      RuntimeError: from the first error of the thread.
    """
    if self._error is not None:
      raise RuntimeError(
        f"the relay at {self.address} met an error of its own: {self._error!r}"
      ) from self._error

  def stats(self) -> RelayStats:
    """The counts now; callable from any thread, also after `close`."""
    links = tuple(self._links)
    return RelayStats(
      connections_open=len(links),
      connections_total=self._total,
      connections_failed=self._failed,
      bytes_up=self._bytes_up + sum(link.client.received for link in links),
      bytes_down=self._bytes_down + sum(link.server.received for link in links),
      bytes_buffered=sum(link.buffered() for link in links),
    )

  def close(self) -> None:
    """Closes the listener and all connections, and ends the thread.

    Bytes that are still in the relay are dropped; writers send again what was
    not confirmed to them.

    Raises:
      RuntimeError: as `check` does, after all is closed.
    """
    thread, self._thread = self._thread, None
    if thread is None:
      return
    self._loop.call_soon_threadsafe(self._stop.set)
    thread.join(_CLOSE_TIMEOUT_S)
    self._listener.close()
    if thread.is_alive():
      raise RuntimeError(
        f"the relay at {self.address} did not end within {_CLOSE_TIMEOUT_S} s;"
        " its connections stay open until this process ends."
      )
    self.check()

  def _run(self) -> None:
    try:
      self._loop.run_until_complete(self._serve())
    except BaseException as error:  # Handed to the owner by `check`.
      self._error = self._error or error
    finally:
      self._loop.close()

  async def _serve(self) -> None:
    server = await self._loop.create_server(
      self._new_client, sock=self._listener.socket
    )
    await self._stop.wait()
    server.close()
    for link in tuple(self._links):
      link.abort()
    # Each link takes itself out when the loop tells it that it is closed.
    while self._links:
      await asyncio.sleep(0)

  def _new_client(self) -> asyncio.Protocol:
    link = relay_link.Link(self._connect, self._on_link_end)
    self._links.add(link)
    self._total += 1
    return link.client

  async def _connect(self, protocol: asyncio.Protocol) -> bool:
    host, port = self._upstream
    connecting = self._loop.create_connection(lambda: protocol, host, port)
    try:
      await asyncio.wait_for(connecting, _CONNECT_TIMEOUT_S)
    except (OSError, asyncio.TimeoutError):
      self._failed += 1
      return False
    return True

  def _on_link_end(self, link: relay_link.Link) -> None:
    self._links.discard(link)
    self._bytes_up += link.client.received
    self._bytes_down += link.server.received

  def _on_loop_error(self, loop, context) -> None:
    """Keeps the first error that no connection can be blamed for."""
    del loop
    error = context.get("exception") or RuntimeError(context["message"])
    self._error = self._error or error
