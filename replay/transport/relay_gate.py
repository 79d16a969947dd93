"""Relay gate: who a client is, what is asked of it, and what it has moved."""

import typing
from collections.abc import Callable


class ClientGate(typing.Protocol):
  """Decides on clients and hears of the upstream, in the relay's thread.

  All methods have to be quick, since all streams wait for them. Clients go by
  their process's id, which is 0 for those that do not come by a unix socket.
  """

  def admit(self, pid: int) -> bool:
    """Whether a client that connects is served; one that is not is closed."""
    ...

  def broke(self, pid: int) -> None:
    """The upstream ended a link of this client, which had not ended itself.

    Called once a link, before the client's connection is closed, so that the
    client is told before it can connect again. Not called for an upstream that
    was never reached, nor when the relay closes.
    """
    ...

  def upstream(self, reachable: bool) -> None:
    """Whether the upstream can be reached: once it is known, and changes."""
    ...


class ClientStats(typing.NamedTuple):
  """What the relay has done for one process, or for all that it cannot tell.

  Attributes:
    streams: its connections that are open now.
    bytes_up: received from it since the relay started.
    bytes_down: received for it from the upstream, since then.
  """

  streams: int = 0
  bytes_up: int = 0
  bytes_down: int = 0

  def plus(self, up: int, down: int, streams: int = 0) -> "ClientStats":
    """With the bytes of one more connection, which is open or has ended."""
    return ClientStats(
      self.streams + streams, self.bytes_up + up, self.bytes_down + down
    )


class Guard:
  """A gate whose errors cannot leave a connection half closed."""

  def __init__(
    self, gate: ClientGate | None, on_error: Callable[[Exception], None]
  ):
    """Asks nothing yet.

    Args:
      gate: what to ask and tell; None admits all.
      on_error: called with what the gate raises; a client is then refused.
    """
    self._gate = gate
    self._on_error = on_error

  def admit(self, pid: int) -> bool:
    try:
      return self._gate is None or bool(self._gate.admit(pid))
    except Exception as error:
      self._on_error(error)
      return False

  def broke(self, pid: int) -> None:
    if self._gate is None:
      return
    try:
      self._gate.broke(pid)
    except Exception as error:
      self._on_error(error)

  def upstream(self, reachable: bool) -> None:
    if self._gate is None:
      return
    try:
      self._gate.upstream(reachable)
    except Exception as error:
      self._on_error(error)
