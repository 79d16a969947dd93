"""Gateway: what one machine of a run offers to the others, and reaches on them.

Servers without authentication listen on the loopback of their own host only
(`loopback`). The gateway relays to them what comes from machines of the
cluster, by mutual TLS, and nothing else. Without an identity it relays what
comes from anywhere.

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
  """One a machine; each offer and each way has a thread, until `close`."""

  def __init__(self, host: str, identity: certificates.Identity | None):
    """Opens nothing.

    Args:
      host: this machine's address, which others know it by.
      identity: of this machine. None: plain TCP, for a private network in
        which everybody may read and write all that belongs to the run.

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
    """Lets other machines reach a service that only this machine can.

    Args:
      address: of the service, which need not run yet; any that
        `relay_upstream` connects to.

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
    """Lets this machine's processes reach what another machine offers.

    Args:
      path: of a unix socket that they connect to; for this user alone.
      upstream: what `offer` returned there; None while it is not known. Asked
        with each connection, by a thread of its own, as offers move.
      preface: first bytes of every client.

    Returns:
      'unix:PATH', which gRPC takes for an address.

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
    """Raises what went wrong in a thread, if anything did.

    Raises:
      RuntimeError: from the first error of a thread.
    """
    for running in self._relays:
      running.check()

  def stats(self) -> relay.RelayStats:
    """The sums now; callable from any thread, also after `close`.

    Refused connections are those of peers without a certificate of the
    cluster's authority, and those of this machine that did not begin with the
    preface.
    """
    return relay.RelayStats.total(
      running.stats() for running in tuple(self._relays)
    )

  def close(self) -> None:
    """Closes all connections and ends the threads.

    Raises:
      RuntimeError: as `check` does, after all is closed.
    """
    self._closing.close()

  def _start(self, made: relay.Relay) -> str:
    made.start()
    self._relays.append(made)
    self._closing.callback(made.close)
    return made.address
