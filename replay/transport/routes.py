"""Routes: a worker's connection to a replay server, direct or by a proxy."""

import socket
import typing

from slipway.replay.transport import control_block, relay_listener

# Seconds for a host to accept. A host that takes longer is overloaded or down.
_CONNECT_TIMEOUT_S = 1.0


class Route(typing.Protocol):
  """An address to write to, and the state of the stream there.

  Attributes:
    address: address of the server or the proxy, as a Reverb client takes it.
  """

  address: str

  def waits_for(self) -> str | None:
    """Returns what prevents a new stream; None: a stream can be opened."""
    ...

  def is_broken(self, stalled: bool = False) -> bool:
    """Returns whether a stream has broken since the last `renew`.

    Args:
      stalled: the stream has not moved for a while, so a slower check is due.
    """
    ...

  def renew(self) -> None:
    """Forgets broken streams; to be called before a new stream is opened."""
    ...


class ProxyRoute:
  """Route through the machine's proxy, which reports broken streams."""

  def __init__(self, address: str, handle: control_block.WorkerHandle):
    """Keeps the arguments; opens no connection.

    Args:
      address: address of the proxy.
      handle: handle of the worker, to the control block of the proxy.
    """
    self.address = address
    self._handle = handle

  def waits_for(self) -> str | None:
    """Returns what prevents a new stream; None: a stream can be opened."""
    if not self._handle.proxy_is_alive:
      return f"the proxy at {self.address}, which is down"
    if not self._handle.server_is_reachable:
      return f"{self._handle.server}, which its proxy cannot reach"
    return None

  def is_broken(self, stalled: bool = False) -> bool:
    """Returns whether the stream broke or the proxy is down.

    Costs two reads of shared memory unless `stalled` is True.
    """
    handle = self._handle
    return handle.stream_is_broken or (stalled and not handle.proxy_is_alive)

  def renew(self) -> None:
    """Acknowledges broken streams, so that the proxy admits this process."""
    self._handle.acknowledge()


class DirectRoute:
  """Route to the server without a proxy.

  A dead server is noticed only when the stream has stalled.
  """

  def __init__(self, address: str):
    """Keeps the address; opens no connection.

    Args:
      address: 'host:port' of the server.

    Raises:
      ValueError: the address has another form.
    """
    self.address = address
    self._host_and_port = relay_listener.host_and_port("address", address)
    self._broken = False

  def waits_for(self) -> str | None:
    """Returns what prevents a new stream; None: a stream can be opened."""
    if not self._server_accepts():
      return f"the replay server at {self.address}, which is down"
    return None

  def is_broken(self, stalled: bool = False) -> bool:
    """Returns whether the server was down when the stream had stalled."""
    if stalled and not self._broken:
      self._broken = not self._server_accepts()
    return self._broken

  def renew(self) -> None:
    """Forgets broken streams; to be called before a new stream is opened."""
    self._broken = False

  def _server_accepts(self) -> bool:
    """Returns whether the server accepts a connection now."""
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
