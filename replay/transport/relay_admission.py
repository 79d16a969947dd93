"""Relay admission: policies that decide which clients a relay serves."""

import typing
from collections.abc import Callable


class Admission(typing.Protocol):
  """Policy that decides which clients a relay serves, with event callbacks.

  All methods have to be fast: the relay's thread calls them, and forwards no
  bytes meanwhile. A client is identified by its process id, which is 0 for
  clients that do not connect by a unix socket.
  """

  def admit(self, pid: int) -> bool:
    """Returns whether to serve a new client, which is disconnected otherwise.

    Args:
      pid: process id of the client; 0: unknown.
    """
    ...

  def on_broken(self, pid: int) -> None:
    """Called when the upstream has closed the connection of a client.

    Called once per connection, before the relay closes the client's side. So
    the client can be informed before it connects again. Not called if the
    upstream was never reached, or when the relay closes.

    Args:
      pid: process id of the client; 0: unknown.
    """
    ...

  def on_reachable(self, reachable: bool) -> None:
    """Called after the first probe of the upstream, and at each change.

    Args:
      reachable: whether the upstream can be reached.
    """
    ...


class ClientStats(typing.NamedTuple):
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
    """Returns the statistics with another connection's counts added.

    Args:
      up: bytes received from the client.
      down: bytes received from the upstream.
      streams: number of open connections to add.
    """
    return ClientStats(
      self.streams + streams, self.bytes_up + up, self.bytes_down + down
    )


class SafeAdmission:
  """Wrapper of an `Admission` that catches its exceptions and reports them.

  A client is rejected if `admit` raises an exception.
  """

  def __init__(
    self,
    admission: Admission | None,
    on_error: Callable[[Exception], None],
  ):
    """Stores the arguments.

    Args:
      admission: policy to wrap; None: all clients are admitted.
      on_error: called with each exception of `admission`.
    """
    self._admission = admission
    self._on_error = on_error

  def admit(self, pid: int) -> bool:
    """Returns whether to serve a client; False after an exception."""
    return self._admission is None or bool(
      self._call(lambda admission: admission.admit(pid))
    )

  def on_broken(self, pid: int) -> None:
    """Calls `Admission.on_broken`, and catches its exception."""
    self._call(lambda admission: admission.on_broken(pid))

  def on_reachable(self, reachable: bool) -> None:
    """Calls `Admission.on_reachable`, and catches its exception."""
    self._call(lambda admission: admission.on_reachable(reachable))

  def _call(self, function: Callable[[Admission], bool | None]) -> bool | None:
    """Calls a function with the policy; returns None after an exception."""
    try:
      return None if self._admission is None else function(self._admission)
    except Exception as error:
      self._on_error(error)
      return None
