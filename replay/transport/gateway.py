"""Gateway: connects the services of a run's machines by mutual TLS.

Servers without authentication accept connections from their own host only
(`loopback`). The gateway of that host accepts connections from machines of the
cluster, by mutual TLS, and relays them to the server. Without an identity it
uses plaintext and relays connections from every peer.

```python
gateway = Gateway(address_of_this_machine, identity)
there = gateway.offer('localhost:7000')  # 'host:port', for other machines.
gateway.reach('/run/user/1000/slipway/replay', lambda: address_of_replay)
...
gateway.close()
```
"""

import contextlib
from collections.abc import Callable

from slipway.replay.transport import certificates, relay, relay_link, relay_tls


class Gateway:
  """One machine's relays, each in a thread of its own, until `close`."""

  def __init__(self, host: str, identity: certificates.Identity | None):
    """Keeps the arguments; opens no connection.

    Args:
      host: address by which other machines reach this one.
      identity: identity of this machine. None: plaintext, for a private network
        all of whose hosts may read and write the run's data.

    Raises:
      ValueError: the identity cannot be read.
    """
    self._host = f"[{host}]" if ":" in host else host
    self._server_tls: relay_tls.Tls = relay_tls.INSECURE
    self._client_tls: relay_tls.Tls = relay_tls.INSECURE
    if identity is not None:
      self._server_tls = identity.server_context()
      self._client_tls = identity.client_context()
    self._relays: list[relay.Relay] = []
    self._closing = contextlib.ExitStack()

  def offer(self, address: str | Callable[[], str | None]) -> str:
    """Makes a service of this machine available to other machines.

    Args:
      address: address of the service, which need not run yet; any that
        `relay_upstream` can connect to.

    Returns:
      'host:port' that other machines' gateways and proxies connect to.

    Raises:
      ValueError: the host is no address of this machine.
    """
    return self._start(
      relay.Relay(f"{self._host}:0", address, listen_tls=self._server_tls)
    )

  def reach(
    self,
    path: str,
    upstream: Callable[[], str | None],
    preface: bytes = relay_link.PREFACE,
  ) -> str:
    """Makes a service of another machine available on this one.

    Args:
      path: path of the unix socket for clients, which only this user may
        connect to.
      upstream: returns the result of the other machine's `offer`, or None while
        it is unknown. Called in a thread at each connection, as a service may
        move to another machine.
      preface: first bytes of every client.

    Returns:
      'unix:PATH', an address for gRPC clients.

    Raises:
      ValueError: the path is in use, or too long.
    """
    return self._start(
      relay.Relay(
        f"unix:{path}",
        upstream,
        upstream_tls=self._client_tls,
        preface=preface,
      )
    )

  def check(self) -> None:
    """Raises the first error of a thread, if there was one.

    Raises:
      RuntimeError: a thread met an error, which is the cause.
    """
    for running in self._relays:
      running.check()

  def stats(self) -> relay.RelayStats:
    """Returns sums over all relays; callable from any thread, also later.

    Refused connections are those of peers without a certificate of the
    cluster's authority, and those of local clients that did not send the
    preface.
    """
    return relay.RelayStats.total(
      running.stats() for running in tuple(self._relays)
    )

  def close(self) -> None:
    """Closes all connections and ends the threads.

    Raises:
      RuntimeError: a thread met an error; everything is closed before.
    """
    self._closing.close()

  def _start(self, made: relay.Relay) -> str:
    made.start()
    self._relays.append(made)
    self._closing.callback(made.close)
    return made.address
