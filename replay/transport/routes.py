"""Routes: how a worker reaches a replay server, directly or by a proxy."""

import socket
import time

from slipway.replay.transport import control_block, relay_listener

# Timeout in seconds of an attempt to connect to the server. A host that takes
# longer is overloaded or down.
_CONNECT_TIMEOUT_S = 1.0
_POLL_S = 0.02  # seconds between two attempts of `wait_for_server`


class ProxyRoute:
  """Route through the machine's proxy, which reports broken streams.

  Attributes:
    address: address of the proxy, in a form for Reverb clients.
  """

  def __init__(self, address: str, handle: control_block.WorkerHandle):
    self.address = address
    self._handle = handle

  def waits_for(self) -> str | None:
    """Returns why no stream can be opened, or None if one can be opened."""
    if not self._handle.proxy_is_alive:
      return f"the proxy at {self.address}, which is down"
    if not self._handle.server_is_reachable:
      return f"{self._handle.server_description}, which its proxy cannot reach"
    return None

  def is_broken(self, stalled: bool = False) -> bool:
    """Returns whether the stream has broken since the last `renew`.

    Args:
      stalled: whether an operation on the stream has timed out or failed, which
        justifies a check whether the proxy is up. Otherwise the call takes only
        two reads of shared memory.
    """
    handle = self._handle
    return handle.stream_is_broken or (stalled and not handle.proxy_is_alive)

  def renew(self) -> None:
    """Resets `is_broken`, so that the proxy admits a new stream."""
    self._handle.acknowledge_broken_stream()


class DirectRoute:
  """Route to the server without a proxy.

  A dead server is detected only when an operation on the stream has timed out
  or failed. The interface is that of `ProxyRoute`.
  """

  def __init__(self, address: str):
    """Stores the address; opens no connection.

    Raises:
      ValueError: the address is not 'host:port'.
    """
    self.address = address
    self._host_and_port = relay_listener.host_and_port("address", address)
    self._broken = False

  def waits_for(self) -> str | None:
    if not self._server_accepts():
      return f"the replay server at {self.address}, which is down"
    return None

  def is_broken(self, stalled: bool = False) -> bool:
    """Returns whether the server was down at any check since `renew`."""
    if stalled and not self._broken:
      self._broken = not self._server_accepts()
    return self._broken

  def renew(self) -> None:
    self._broken = False

  def _server_accepts(self) -> bool:
    """Returns whether an attempt to connect to the server succeeds now."""
    # A plain socket, not gRPC, which waits longer after each failed attempt:
    # all clients of this process at this address would share that wait.
    try:
      with socket.create_connection(
        self._host_and_port, _CONNECT_TIMEOUT_S
      ) as connection:
        # If no process listens on the port, the kernel may choose the very
        # same port as the source, and connect the socket with itself.
        return connection.getsockname() != connection.getpeername()
    except OSError:
      return False


# How a worker reaches a server.
Route = ProxyRoute | DirectRoute


def wait_for_server(address: str, timeout_s: float) -> None:
  """Waits until a server at 'host:port' accepts connections.

  Raises:
    TimeoutError: it did not within `timeout_s` seconds.
  """
  route, deadline_s = DirectRoute(address), time.monotonic() + timeout_s
  while (waits_for := route.waits_for()) is not None:
    if time.monotonic() > deadline_s:
      raise TimeoutError(f"waited {timeout_s:g} s for {waits_for}")
    time.sleep(_POLL_S)
