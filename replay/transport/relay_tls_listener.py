"""TLS listener of a relay: accepts other relays as clients."""

import asyncio
import socket
from collections.abc import Callable

from slipway.replay.transport import relay_link, relay_tls

# Maximum number of clients in their TLS handshake at the same time, which takes
# milliseconds. Without the limit, unauthenticated peers that send nothing could
# use up the file descriptors of the process.
_HANDSHAKE_LIMIT = 128

# Seconds until the next attempt to accept a client after an error, mostly a
# lack of file descriptors.
_PAUSE_S = 0.1


class TlsListener:
  """Listener that accepts a relay's TLS clients, and makes a link for each.

  If too many clients are in their TLS handshake, the oldest is disconnected.
  """

  def __init__(
    self,
    listening: socket.socket,
    tls: relay_tls.Tls,
    make_link: Callable[[], relay_link.Link],
  ):
    """Starts to accept clients in the running event loop.

    Args:
      listening: listening socket, which the caller closes after `close`.
    """
    listening.setblocking(False)
    self._listening = listening
    self._tls: relay_tls.Tls = tls
    self._make_link = make_link
    self._in_handshake: list[relay_link.Link] = []
    self._pause: asyncio.TimerHandle | None = None
    self._loop = asyncio.get_running_loop()
    self._start_accepting()

  def close(self) -> None:
    """Stops accepting clients; accepted clients stay connected."""
    if self._pause is not None:
      self._pause.cancel()
    self._loop.remove_reader(self._listening.fileno())

  def _start_accepting(self) -> None:
    """Registers `_accept` to be called when a client has connected."""
    self._loop.add_reader(self._listening.fileno(), self._accept)

  def _accept(self) -> None:
    """Accepts one client, and starts its handshake."""
    try:
      connection, _ = self._listening.accept()
    except (BlockingIOError, ConnectionAbortedError):
      return  # The client has disconnected meanwhile.
    except OSError:
      self._loop.remove_reader(self._listening.fileno())
      self._pause = self._loop.call_later(_PAUSE_S, self._start_accepting)
      return
    connection.setblocking(False)
    self._in_handshake = [x for x in self._in_handshake if x.is_in_handshake]
    if len(self._in_handshake) >= _HANDSHAKE_LIMIT:
      self._in_handshake.pop(0).cancel_handshake()
    link = self._make_link()
    self._in_handshake.append(link)
    link.start_handshake(connection, self._tls)
