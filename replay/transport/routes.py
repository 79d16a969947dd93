"""Routes: a worker's way to the server, and whether its stream still holds."""

import socket
import typing

from slipway.replay.transport import board, relay_listener

# Seconds for a host to accept. One that takes longer is busy or gone.
_CONNECT_TIMEOUT_S = 1.0


class Route(typing.Protocol):
  """Where to write, and when."""

  address: str  # that a Reverb client takes

  def waits_for(self) -> str | None:
    """What a new stream would have to wait for; None: it can be opened."""
    ...

  def is_broken(self, stalled: bool = False) -> bool:
    """Whether a stream opened since `renew` has broken for good.

    Args:
      stalled: it has not moved for a while, so that a closer look is due.
    """
    ...

  def renew(self) -> None:
    """Says that no stream is open: the next one is a new one."""
    ...


class ProxyRoute:
  """Through the proxy of the worker's machine, which knows what broke."""

  def __init__(self, address: str, seat: board.WorkerSeat):
    """Opens nothing.

    Args:
      address: of the proxy.
      seat: the worker's, at the proxy's board.
    """
    self.address = address
    self._seat = seat

  def waits_for(self) -> str | None:
    """What a new stream would have to wait for; None: it can be opened."""
    if not self._seat.proxy_is_alive:
      return f"the proxy at {self.address}, which is not there"
    if not self._seat.server_is_reachable:
      return f"{self._seat.server}, which its proxy cannot reach"
    return None

  def is_broken(self, stalled: bool = False) -> bool:
    """Whether the proxy says so, or is gone; costs two words of memory."""
    seat = self._seat
    return seat.stream_is_broken or (stalled and not seat.proxy_is_alive)

  def renew(self) -> None:
    """Lets the proxy admit this process again."""
    self._seat.acknowledge()


class DirectRoute:
  """Straight to the server, whose death shows when nothing moves any more."""

  def __init__(self, address: str):
    """Opens nothing.

    Args:
      address: 'host:port' of the server.

    Raises:
      ValueError: the address has another form.
    """
    self.address = address
    self._host_and_port = relay_listener.host_and_port("address", address)
    self._broken = False

  def waits_for(self) -> str | None:
    """What a new stream would have to wait for; None: it can be opened."""
    if not self._accepts():
      return f"the replay server at {self.address}, which does not answer"
    return None

  def is_broken(self, stalled: bool = False) -> bool:
    """Whether the server was found gone when the stream had stalled."""
    if stalled and not self._broken:
      self._broken = not self._accepts()
    return self._broken

  def renew(self) -> None:
    """Forgets what broke."""
    self._broken = False

  def _accepts(self) -> bool:
    # Not by gRPC: its channel would wait longer and longer between attempts,
    # and share that delay with each client of the process to this address.
    try:
      with socket.create_connection(
        self._host_and_port, _CONNECT_TIMEOUT_S
      ) as connection:
        # Where nobody listens, the kernel may choose the very port that is
        # sought to call from, and connect the socket with itself.
        return connection.getsockname() != connection.getpeername()
    except OSError:
      return False
