"""Relay admission: which clients a relay serves, and their byte counts."""

import typing
from collections.abc import Callable


class Admission(typing.Protocol):
  """Decides which clients a relay serves, and receives its events.

  The relay's thread calls all methods, and all streams wait meanwhile, so they
  have to be fast. A client is identified by its process id, which is 0 for
  clients that do not connect by a unix socket.
  """

  def admit(self, pid: int) -> bool:
    """Returns whether to serve a new client; others are disconnected."""
    ...

  def on_broken(self, pid: int) -> None:
    """Receives that the upstream closed a client's open connection.

    Called once per connection, before the client's side is closed, so the
    client can be informed before it connects again. Not called if the upstream
    was never reached, nor when the relay closes.
    """
    ...

  def on_reachable(self, reachable: bool) -> None:
    """Receives whether the upstream can be reached, first and at changes."""
    ...


class ClientStats(typing.NamedTuple):
  """Counts of one client process, or of all clients with an unknown process.

  Attributes:
    streams: connections that are open now.
    bytes_up: received from the client since the relay started.
    bytes_down: received from the upstream for the client, since then.
  """

  streams: int = 0
  bytes_up: int = 0
  bytes_down: int = 0

  def plus(self, up: int, down: int, streams: int = 0) -> "ClientStats":
    """Returns the sums with those of one more connection.

    Args:
      up: bytes from the client.
      down: bytes from the upstream.
      streams: 1 if the connection is open.
    """
    return ClientStats(
      self.streams + streams, self.bytes_up + up, self.bytes_down + down
    )


class SafeAdmission:
  """An `Admission` whose exceptions cannot leave a connection half closed."""

  def __init__(
    self,
    admission: Admission | None,
    on_error: Callable[[Exception], None],
  ):
    """Keeps the arguments.

    Args:
      admission: decides on clients; None admits all clients.
      on_error: called with each exception of `admission`; the client is
        rejected then.
    """
    self._admission = admission
    self._on_error = on_error

  def admit(self, pid: int) -> bool:
    return self._admission is None or bool(
      self._call(lambda admission: admission.admit(pid))
    )

  def on_broken(self, pid: int) -> None:
    self._call(lambda admission: admission.on_broken(pid))

  def on_reachable(self, reachable: bool) -> None:
    self._call(lambda admission: admission.on_reachable(reachable))

  def _call(self, function: Callable[[Admission], bool | None]) -> bool | None:
    try:
      return None if self._admission is None else function(self._admission)
    except Exception as error:
      self._on_error(error)
      return None
