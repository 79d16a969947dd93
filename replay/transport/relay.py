"""Relay: forwards bytes between a machine's workers and the Reverb server.

The relay checks that a client begins with the 24 bytes of the HTTP/2 preface,
and disconnects all others before they reach the server. It does not parse later
bytes: a relay of gRPC messages in Python would take about ten times the CPU
time. It preserves back-pressure: if one side does not read, the relay buffers
at most half a megabyte, and then stops reading the other side. It imports
neither Reverb nor TensorFlow, so it listens within milliseconds.
"""

import asyncio
import itertools
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import uvloop

from slipway.replay.transport import (
  relay_link,
  relay_listener,
  relay_tls,
  relay_tls_listener,
  relay_upstream,
)

# Seconds within which a client has to send the HTTP/2 preface, by default. gRPC
# sends it when it connects.
_PREFACE_TIMEOUT_S = 5.0

# Seconds that `Relay.close` waits for the relay's thread to stop, which
# normally takes milliseconds.
_CLOSE_TIMEOUT_S = 2.0


class ClientStats(NamedTuple):
  """Statistics of one client process, or of all clients with unknown process.

  Attributes:
    streams: number of connections that are open now.
    bytes_up: bytes received from the client since the relay started.
    bytes_down: bytes received from the upstream for the client since then.
  """

  streams: int = 0
  bytes_up: int = 0
  bytes_down: int = 0

  def plus(self, up: int, down: int, streams: int = 0) -> "ClientStats":
    """Returns the statistics with another connection's counts added."""
    return ClientStats(
      self.streams + streams, self.bytes_up + up, self.bytes_down + down
    )


class RelayStats(NamedTuple):
  """Statistics of a relay since its construction.

  Attributes:
    connections_open: number of clients that are connected now.
    connections_total: number of connections accepted so far.
    connections_failed: closed because the upstream could not be reached.
    bytes_up: bytes received from clients.
    bytes_down: bytes received from the upstream.
    bytes_buffered: bytes received and not yet forwarded.
    connections_refused: clients that were rejected, or disconnected before
      their preface or handshake was complete; see `relay_link.Link.refused`.
    clients: statistics per client process, by process id; clients that connect
      by TCP share the id 0.
  """

  connections_open: int
  connections_total: int
  connections_failed: int
  bytes_up: int
  bytes_down: int
  bytes_buffered: int
  connections_refused: int
  clients: Mapping[int, ClientStats]

  @classmethod
  def total(cls, stats: Iterable["RelayStats"]) -> "RelayStats":
    """Returns the statistics of several relays, summed."""
    stats = tuple(stats)
    merged: dict[int, ClientStats] = {}
    for pid, client in itertools.chain(*(s.clients.items() for s in stats)):
      known = merged.get(pid, ClientStats())
      merged[pid] = known.plus(
        client.bytes_up, client.bytes_down, client.streams
      )
    counts = (name for name in cls._fields if name != "clients")
    return cls(
      clients=merged,
      **{name: sum(getattr(s, name) for s in stats) for name in counts},
    )


class Admission(NamedTuple):
  """Functions of a policy that decides which clients are served.

  Attributes:
    admit: returns whether to serve a client, by process id; 0: unknown.
    on_broken: called with the process id of a connection that has broken,
      before the client's side is closed.
    on_reachable: called with whether the upstream is reachable, at each change.
  """

  admit: Callable[[int], bool]
  on_broken: Callable[[int], None]
  on_reachable: Callable[[bool], None]


class Relay:
  """Server that forwards bytes between each of its clients and the upstream.

  The relay runs in a separate thread from `start` to `close`.
  """

  def __init__(
    self,
    listen: str,
    upstream: str | Callable[[], str | None],
    admission: Admission | None = None,
    preface_timeout_s: float = _PREFACE_TIMEOUT_S,
    listen_tls: relay_tls.Tls | None = None,
    upstream_tls: relay_tls.Tls | None = None,
    preface: bytes = relay_link.PREFACE,
  ):
    """Checks the arguments; `start` opens the connections.

    Args:
      listen: 'unix:PATH', to which only this user may connect, or 'host:port'.
      upstream: 'host:port', 'unix:PATH' or 'passed:PATH' (see
        `socket_passing`) of the Reverb server, which need not run yet. For a
        server whose address may change: a function that returns the address, or
        None while it is unknown. The relay's thread calls the function at each
        attempt to connect.
      admission: policy, whose functions must be fast; a client is rejected if
        one raises an error. None: all clients are served, and the upstream is
        not probed.
      preface_timeout_s: seconds within which a client has to send the preface
        or, with TLS, its certificate.
      listen_tls: context, or `relay_tls.INSECURE`, if the clients are relays
        with an `upstream_tls`. None: the clients are HTTP/2 clients.
      upstream_tls: context, or `relay_tls.INSECURE`, if the upstream is a relay
        with `listen_tls`. None: the upstream is the server itself.
      preface: bytes with which clients begin if `listen_tls` is None; by
        default HTTP/2's.

    Raises:
      ValueError: an argument is invalid.
    """
    relay_listener.check("listen", listen)
    if isinstance(upstream, str):
      relay_listener.check("upstream", upstream)
    self._listen = listen
    self._admission = admission
    self._preface_timeout_s = preface_timeout_s
    self._upstream = relay_upstream.Upstream(
      (lambda: upstream) if isinstance(upstream, str) else upstream,
      None if admission is None else self._on_reachable,
      upstream_tls,
    )
    self._may_move = not isinstance(upstream, str)
    self._listen_tls: relay_tls.Tls | None = listen_tls
    self._callbacks = relay_link.LinkCallbacks(
      self._admit, self._connect, self._on_broken, self._on_ended, preface
    )
    # From `start` on.
    self._loop: Any = None
    self._thread: threading.Thread | None = None
    self._listener: Any = None
    self._stop: Any = None
    # Held where links begin, end and are counted, not where bytes pass.
    self._lock = threading.Lock()
    self._links: set[relay_link.Link] = set()
    self._clients: dict[int, ClientStats] = {}  # of links that have ended
    self._total = 0
    self._failed = 0
    self._refused = 0
    self._error: BaseException | None = None

  @property
  def address(self) -> str:
    """Address that clients connect to, with the actual port if 0 was given."""
    return self._listener.address if self._listener else self._listen

  def start(self) -> None:
    """Starts the thread; clients can connect on return.

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
    """Raises RuntimeError, from its error, if the relay's thread has failed."""
    if self._error is not None:
      raise RuntimeError(
        f"the relay at {self.address} failed: {self._error!r}"
      ) from self._error

  def stats(self) -> RelayStats:
    """Returns the statistics; callable from any thread, also after `close`."""
    with self._lock:
      links, clients = tuple(self._links), dict(self._clients)
      total, failed, refused = self._total, self._failed, self._refused
    for link in links:
      client = clients.get(link.pid, ClientStats())
      clients[link.pid] = client.plus(*link.received, streams=1)
    return RelayStats(
      connections_open=len(links),
      connections_total=total,
      connections_failed=failed,
      bytes_up=sum(client.bytes_up for client in clients.values()),
      bytes_down=sum(client.bytes_down for client in clients.values()),
      bytes_buffered=sum(link.buffered() for link in links),
      connections_refused=refused,
      clients=clients,
    )

  def close(self) -> None:
    """Closes the listener and all connections, and stops the thread.

    Buffered bytes are dropped; the items that they contain stay unconfirmed.
    Raises RuntimeError if the thread has failed, or did not stop in time.
    """
    thread, self._thread = self._thread, None
    if thread is None:
      return
    self._loop.call_soon_threadsafe(self._stop.set)
    thread.join(_CLOSE_TIMEOUT_S)
    self._listener.close()
    if thread.is_alive():
      raise RuntimeError(
        f"the relay at {self.address} did not stop within {_CLOSE_TIMEOUT_S} s;"
        " its connections stay open until this process ends."
      )
    self.check()

  def _run(self) -> None:
    """Runs the event loop in the relay's thread until `close`."""
    try:
      self._loop.run_until_complete(self._serve())
    except BaseException as error:
      self._keep_first_error(error)
    finally:
      self._loop.close()

  async def _serve(self) -> None:
    """Accepts clients until `close`, then closes all links."""
    if self._listen_tls is None:
      server = await self._loop.create_server(
        lambda: self._make_link().client, sock=self._listener.socket
      )
    else:
      server = relay_tls_listener.TlsListener(
        self._listener.socket, self._listen_tls, self._make_link
      )
    self._upstream.probe()
    following = None
    if self._may_move:
      following = asyncio.ensure_future(self._upstream.follow(self._on_moved))
    await self._stop.wait()
    if following is not None:
      following.cancel()
    server.close()
    await self._upstream.close()
    await asyncio.sleep(0)  # Accepted connections get their link.
    for link in tuple(self._links):
      link.abort()
    # Each link removes itself when the loop has closed its connections.
    while self._links:
      await asyncio.sleep(0)

  def _on_moved(self) -> None:
    """Closes all connections to the old address of the upstream."""
    for link in tuple(self._links):
      link.close_upstream()

  def _make_link(self) -> relay_link.Link:
    """Makes the link of a new client."""
    return relay_link.Link(self._callbacks, self._preface_timeout_s)

  def _admit(self, link: relay_link.Link) -> bool:
    """Counts the link of a new client; returns whether to serve the client."""
    with self._lock:
      self._links.add(link)
      self._total += 1
    return self._ask(lambda admission: admission.admit(link.pid), True)

  async def _connect(self, protocol: asyncio.Protocol) -> bool:
    """Connects a protocol to the upstream; returns whether that succeeded."""
    reached = await self._upstream.connect(protocol)
    self._failed += not reached
    return reached

  def _on_broken(self, link: relay_link.Link) -> None:
    """Reports a link that the upstream closed, and probes the upstream."""
    self._ask(lambda admission: admission.on_broken(link.pid))
    self._upstream.probe_again()

  def _on_reachable(self, reachable: bool) -> None:
    """Reports whether the upstream is reachable; called at each change."""
    self._ask(lambda admission: admission.on_reachable(reachable))

  def _ask(self, call: Callable[[Any], Any], default: bool = False) -> bool:
    """Calls a function with the admission, if any; keeps its error."""
    if self._admission is None:
      return default
    try:
      return bool(call(self._admission))
    except Exception as error:
      self._keep_first_error(error)
      return False

  def _on_ended(self, link: relay_link.Link) -> None:
    """Removes a closed link, and adds its bytes to the client's statistics."""
    with self._lock:
      self._links.discard(link)
      self._refused += link.refused
      if any(link.received):
        client = self._clients.get(link.pid, ClientStats())
        self._clients[link.pid] = client.plus(*link.received)

  def _on_loop_error(self, loop, context) -> None:
    """Stores an error for `check`; the event loop's exception handler."""
    del loop
    self._keep_first_error(
      context.get("exception") or RuntimeError(context["message"])
    )

  def _keep_first_error(self, error: BaseException) -> None:
    """Stores an error for `check` to raise, unless one is stored already."""
    self._error = self._error or error
