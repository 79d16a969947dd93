"""Gateway: connects the services of a run's machines by mutual TLS.

Servers without authentication accept connections only from their own host
(`loopback`). The gateway of that host accepts connections from machines of the
cluster, by mutual TLS, and relays them to the server. A gateway without an
identity uses plaintext, and relays connections from every peer.
"""

import contextlib
from collections.abc import Callable

from slipway.replay.transport import certificates, relay, relay_link, relay_tls


class Gateway:
  """Set of relays that connect one machine's services with other machines.

  Each relay runs in a separate thread until `close`.
  """

  def __init__(self, host: str, identity: certificates.Identity | None):
    """Loads the identity's certificates; opens no connection.

    Args:
      identity: identity of this machine. None: plaintext without
        authentication, for a network whose hosts are all trusted.

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
      address: address of the service, 'host:port', 'unix:PATH' or
        'passed:PATH'; or a function that returns the address, or None while it
        is unknown. The service need not run yet.

    Returns:
      'host:port' that other machines' gateways and proxies connect to.

    Raises:
      ValueError: the host is no address of this machine.
    """
    return self._start_relay(
      relay.Relay(f"{self._host}:0", address, listen_tls=self._server_tls)
    )

  def reach(
    self,
    path: str,
    upstream: Callable[[], str | None],
    preface: bytes = relay_link.PREFACE,
  ) -> str:
    """Makes a service of another machine available on this machine.

    Args:
      path: path of a new unix socket for clients of the service, to which only
        this user may connect.
      upstream: function that returns the result of the other machine's `offer`,
        or None while it is unknown. A thread calls it at each connection, as a
        service may move to another machine.
      preface: bytes with which every client begins; by default HTTP/2's. Empty:
        any bytes.

    Returns:
      'unix:PATH', an address for gRPC clients.

    Raises:
      ValueError: the path is in use, or too long.
    """
    return self._start_relay(
      relay.Relay(
        f"unix:{path}",
        upstream,
        upstream_tls=self._client_tls,
        preface=preface,
      )
    )

  def check(self) -> None:
    """Raises RuntimeError if the thread of a relay has failed."""
    for running in self._relays:
      running.check()

  def stats(self) -> relay.RelayStats:
    """Returns the statistics of all relays, summed; see `RelayStats`."""
    return relay.RelayStats.total(
      running.stats() for running in tuple(self._relays)
    )

  def close(self) -> None:
    """Closes all connections and stops the threads.

    Raises:
      RuntimeError: a thread failed; all connections are closed nevertheless.
    """
    self._closing.close()

  def _start_relay(self, new_relay: relay.Relay) -> str:
    """Starts a relay, which runs until `close`; returns its address."""
    new_relay.start()
    self._relays.append(new_relay)
    self._closing.callback(new_relay.close)
    return new_relay.address
