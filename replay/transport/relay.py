"""Relay: passes bytes between a machine's workers and the Reverb server.

A client's first 24 bytes tell HTTP/2 from garbage, of which the server never
hears. The relay understands nothing of what follows, which makes it cheap: a
relay of gRPC messages in Python costs about ten times the CPU. Back-pressure
goes through it: what a peer does not read stays with who sent it, but for a few
hundred kilobytes of each connection. Works without Reverb and TensorFlow, so
that it listens within milliseconds.

```python
relay = Relay('unix:/run/user/1000/slipway/relay', 'replay-host:7000')
relay.start()
client = reverb.Client(relay.address)
...
relay.close()
```
"""

import asyncio
import itertools
import math
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import uvloop

from slipway.replay.transport import (
  relay_door,
  relay_gate,
  relay_link,
  relay_listener,
  relay_tls,
  relay_upstream,
)

# Seconds for a client's first 24 bytes, which gRPC sends when it connects.
_PREFACE_TIMEOUT_S = 5.0

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
    connections_refused: those that were not admitted, or ended or were closed
      without having begun as an HTTP/2 client begins; with TLS, without having
      shown a certificate of the authority.
    clients: by process id; 0 has all those that come by TCP.
  """

  connections_open: int
  connections_total: int
  connections_failed: int
  bytes_up: int
  bytes_down: int
  bytes_buffered: int
  connections_refused: int
  clients: Mapping[int, relay_gate.ClientStats]

  @classmethod
  def total(cls, stats: Iterable["RelayStats"]) -> "RelayStats":
    """Those of any number of relays together."""
    stats = tuple(stats)
    merged: dict[int, relay_gate.ClientStats] = {}
    for pid, client in itertools.chain(*(s.clients.items() for s in stats)):
      known = merged.get(pid, relay_gate.ClientStats())
      merged[pid] = known.plus(
        client.bytes_up, client.bytes_down, client.streams
      )
    counts = (name for name in cls._fields if name != "clients")
    return cls(
      clients=merged,
      **{name: sum(getattr(s, name) for s in stats) for name in counts},
    )


class Relay:
  """Listens for clients and gives each a connection to the upstream.

  Runs in a thread of its own from `start` to `close`.
  """

  def __init__(
    self,
    listen: str,
    upstream: str | Callable[[], str | None],
    gate: relay_gate.ClientGate | None = None,
    preface_timeout_s: float = _PREFACE_TIMEOUT_S,
    listen_tls: relay_tls.Tls | None = None,
    upstream_tls: relay_tls.Tls | None = None,
    preface: bytes = relay_link.PREFACE,
  ):
    """Checks the arguments; opens nothing.

    Args:
      listen: 'unix:PATH', which only this user may connect to, or 'host:port'.
      upstream: 'host:port', 'unix:PATH' or 'passed:PATH' (see
        `socket_passing`) of the Reverb server, which need not
        run yet. If it can move: what tells where it is now, asked with each
        attempt to connect, in the relay's thread; None is nowhere.
      gate: decides who is served; None serves all, and probes no upstream.
      preface_timeout_s: seconds for a client to begin as an HTTP/2 client, or
        with TLS to show its certificate.
      listen_tls: context, or `relay_tls.INSECURE`, for clients that are relays
        with an `upstream_tls`. None: clients are what speaks HTTP/2.
      upstream_tls: the same for an upstream that is a relay with `listen_tls`.
        None: it is the server itself.
      preface: first bytes of every client without TLS; by default those of
        HTTP/2.

    Raises:
      ValueError: an argument cannot be one.
    """
    relay_listener.check("listen", listen)
    if isinstance(upstream, str):
      relay_listener.check("upstream", upstream)
    if not 0 < preface_timeout_s < math.inf:
      raise ValueError(
        f"preface_timeout_s is {preface_timeout_s}, with which clients would be"
        " closed at once or never; pass a number of seconds above 0."
      )
    self._listen = listen
    self._gate = relay_gate.Guard(gate, self._keep)
    self._preface_timeout_s = preface_timeout_s
    self._upstream = relay_upstream.Upstream(
      (lambda: upstream) if isinstance(upstream, str) else upstream,
      None if gate is None else self._gate.upstream,
      upstream_tls,
    )
    self._may_move = not isinstance(upstream, str)
    self._listen_tls: relay_tls.Tls | None = listen_tls
    self._calls = relay_link.Calls(
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
    self._clients: dict[
      int, relay_gate.ClientStats
    ] = {}  # of links that have ended
    self._total = 0
    self._failed = 0
    self._refused = 0
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
    with self._lock:
      links, clients = tuple(self._links), dict(self._clients)
      total, failed, refused = self._total, self._failed, self._refused
    for link in links:
      client = clients.get(link.pid, relay_gate.ClientStats())
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
    except BaseException as error:
      self._keep(error)
    finally:
      self._loop.close()

  async def _serve(self) -> None:
    if self._listen_tls is None:
      server = await self._loop.create_server(
        lambda: self._make_link().client, sock=self._listener.socket
      )
    else:
      server = relay_door.Door(
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
    await asyncio.sleep(0)  # Those that are accepted get their link.
    for link in tuple(self._links):
      link.abort()
    # Each link takes itself out when the loop tells it that it is closed.
    while self._links:
      await asyncio.sleep(0)

  def _on_moved(self) -> None:
    for link in tuple(self._links):
      link.leave()

  def _make_link(self) -> relay_link.Link:
    return relay_link.Link(self._calls, self._preface_timeout_s)

  def _admit(self, link: relay_link.Link) -> bool:
    with self._lock:
      self._links.add(link)
      self._total += 1
    return self._gate.admit(link.pid)

  async def _connect(self, protocol: asyncio.Protocol) -> bool:
    reached = await self._upstream.connect(protocol)
    self._failed += not reached
    return reached

  def _on_broken(self, link: relay_link.Link) -> None:
    self._gate.broke(link.pid)
    self._upstream.doubt()

  def _on_ended(self, link: relay_link.Link) -> None:
    with self._lock:
      self._links.discard(link)
      self._refused += link.refused
      if any(link.received):
        client = self._clients.get(link.pid, relay_gate.ClientStats())
        self._clients[link.pid] = client.plus(*link.received)

  def _on_loop_error(self, loop, context) -> None:
    """Keeps the first error that no connection can be blamed for."""
    del loop
    self._keep(context.get("exception") or RuntimeError(context["message"]))

  def _keep(self, error: BaseException) -> None:
    """Hands the first error to the owner by `check`."""
    self._error = self._error or error
