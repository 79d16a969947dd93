"""The proxy node: a machine's WorkerProxy, in a process of its own."""

import typing

from launch import addresses, link
from replay import proxy as proxy_lib

_CHECK_S = 0.2


class Proxy:
  """Relays the workers' writes and holds their variables."""

  def __init__(self, data: addresses.DataAddresses, control: typing.Any):
    """Serves at once.

    Args:
      data: where the server is, and where to listen.
      control: Courier client of the control node.
    """
    self._control = control
    self._proxy = proxy_lib.WorkerProxy(
      data.server.resolve(), data.proxy_listen, data.variables_path
    )
    self._proxy.start()

  def run(self) -> None:
    """Relays until the run stops."""
    with link.Link(self._control, "proxy", 0, self._metrics) as node_link:
      while not node_link.wait(_CHECK_S):
        self._proxy.check()
      self._proxy.close()

  def _metrics(self) -> dict[str, typing.Any]:
    stats = self._proxy.stats()
    return {
      "connections": stats.relay.connections_open,
      "bytes_up": stats.relay.bytes_up,
      "bytes_down": stats.relay.bytes_down,
      "variables_fetched": stats.versions_fetched,
    }
