"""Relay upstream: connects to the upstream of a relay, and probes it."""

import asyncio
import itertools
import socket
import struct
from collections.abc import Callable
from typing import Any

from slipway.replay.transport import relay_listener, relay_tls, socket_passing

# Timeout in seconds of a connection attempt, after which the client is closed.
# The worker's gRPC then tries again.
_CONNECT_TIMEOUT_S = 5.0

# Seconds between two probes of an upstream that is down. The period is short
# compared with a server's start, and a probe takes only microseconds.
_PROBE_PERIOD_S = 0.1

# Seconds between two checks whether the upstream's address has changed. Each
# check reads a file.
_FOLLOW_PERIOD_S = 0.5

# Number of probes after a link has broken. One is not enough: a process that
# dies closes its sockets one by one, and may still listen at the first probe.
_PROBES = 2


class Upstream:
  """Connector to the upstream of a relay, with probes whether it is up.

  Call all methods in the event loop's thread.
  """

  def __init__(
    self,
    find: Callable[[], str | None],
    on_change: Callable[[bool], None] | None,
    tls: relay_tls.Tls | None = None,
  ):
    """Stores the arguments; opens no connection.

    Args:
      find: function that returns the upstream's address in a form of
        `relay_listener.check`, or None while the address is unknown; called at
        each attempt to connect.
      on_change: called with whether the upstream is reachable, after the first
        attempt and at each change. None: the upstream is not probed.
      tls: context, or INSECURE, if the upstream is another relay, which sends a
        ready message. None: the upstream is the server itself.
    """
    self._find = find
    self._tls: relay_tls.Tls | None = tls
    self._on_change = on_change
    self._reachable: bool | None = None
    self._probes_left = 0
    self._probing: asyncio.Task | None = None
    self._attempts = itertools.count(1)
    self._closed = False
    self._deciding_attempt = 0  # by which `_reachable` was set

  def probe(self) -> None:
    """Starts a task that probes the upstream until it is reachable.

    It has no effect without `on_change`, after `close`, or while such a task
    runs.
    """
    if self._on_change is None or self._closed:
      return
    if self._probing is None or self._probing.done():
      loop = asyncio.get_running_loop()
      self._probing = loop.create_task(self._probe())

  def probe_again(self) -> None:
    """Probes the upstream at least `_PROBES` times, after it closed a link."""
    self._probes_left = _PROBES
    self.probe()

  async def connect(self, protocol: asyncio.Protocol) -> bool:
    """Connects a protocol to the upstream; returns whether that succeeded."""
    return await self._reach(protocol) is not None

  async def follow(self, on_moved: Callable[[], None]) -> None:
    """Checks until `close` whether the upstream's address has changed.

    A machine that has lost power closes no connections. Without this check,
    connections to that machine would stay open for minutes.
    """
    before = self._find()
    while not self._closed:
      await asyncio.sleep(_FOLLOW_PERIOD_S)
      now = self._find()
      if now is not None and now != before:
        if before is not None:
          on_moved()
        before = now

  async def close(self) -> None:
    """Stops probing and `follow`; open connections stay."""
    self._closed = True
    if self._probing is not None:
      self._probing.cancel()
      await asyncio.wait([self._probing])

  async def _reach(
    self, protocol: asyncio.Protocol
  ) -> asyncio.Transport | None:
    """Attempts once to connect a protocol, and updates the reachability."""
    attempt = next(self._attempts)
    address = self._find()
    transport: Any = None
    try:
      if address is not None:
        async with asyncio.timeout(_CONNECT_TIMEOUT_S):
          transport = await self._dial(address, protocol)
      if transport is not None and _is_to_itself(transport):
        # A reset, as an orderly end would keep the port from the server for a
        # minute.
        transport.get_extra_info("socket").setsockopt(
          socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
        )
        transport.abort()
        transport = None
    except OSError:
      transport = None
    self._update_reachable(attempt, transport is not None)
    return transport

  async def _dial(self, address: str, protocol: asyncio.Protocol) -> Any:
    loop = asyncio.get_running_loop()
    if self._tls is not None:
      return await relay_tls.dial(loop, address, protocol, self._tls)
    path = relay_listener.path_of(address)
    passing = relay_listener.path_of(address, relay_listener.PASSED)
    if passing is not None:
      passed = await loop.run_in_executor(None, socket_passing.connect, passing)
      connected = await loop.create_connection(lambda: protocol, sock=passed)
    elif path is not None:
      connected = await loop.create_unix_connection(lambda: protocol, path)
    else:
      host, port = relay_listener.host_and_port("upstream", address)
      connected = await loop.create_connection(lambda: protocol, host, port)
    return connected[0]

  def _update_reachable(self, attempt: int, reachable: bool) -> None:
    """Stores the result of an attempt to connect; reports changes."""
    # An attempt that began before the deciding one describes an older state.
    if attempt < self._deciding_attempt:
      return
    self._deciding_attempt = attempt
    if self._closed:
      return
    if self._on_change is not None and reachable != self._reachable:
      self._reachable = reachable
      self._on_change(reachable)
    if not reachable:
      self.probe()

  async def _probe(self) -> None:
    """Connects and disconnects until the upstream is reachable."""
    try:
      while True:
        self._probes_left = max(0, self._probes_left - 1)
        transport = await self._reach(asyncio.Protocol())
        if transport is not None:
          transport.close()
        if self._is_probing_done():
          return
        await asyncio.sleep(_PROBE_PERIOD_S)
        if self._is_probing_done():  # A link may have connected meanwhile.
          return
    except Exception as error:
      message = "the upstream could not be probed"
      asyncio.get_running_loop().call_exception_handler(
        {"message": message, "exception": error}
      )

  def _is_probing_done(self) -> bool:
    """Returns whether no further probe is needed."""
    return self._closed or (bool(self._reachable) and self._probes_left == 0)


def _is_to_itself(transport: asyncio.Transport) -> bool:
  """Returns whether TCP has connected a socket to itself."""
  if transport.is_closing():  # It was reset meanwhile.
    return False
  own, peer = map(transport.get_extra_info, ("sockname", "peername"))
  return own is not None and own == peer
