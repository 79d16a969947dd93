"""TLS listener of a relay: accepts other relays by their certificates."""

import asyncio
import socket
from collections.abc import Callable

from slipway.replay.transport import relay_link, relay_tls

# Clients in their handshake at once, which takes milliseconds. Without a limit,
# an unauthenticated peer that opens connections and sends nothing would use up
# the file descriptors of the process.
_HANDSHAKE_LIMIT = 128

# Seconds to wait after the kernel could not accept, mostly for lack of file
# descriptors.
_PAUSE_S = 0.1


class TlsListener:
  """Accepts TLS clients of a relay until `close`, and makes each a `Link`."""

  def __init__(
    self,
    listening: socket.socket,
    tls: relay_tls.Tls,
    make_link: Callable[[], relay_link.Link],
  ):
    """Starts to accept in the running event loop.

    Args:
      listening: a socket that listens; the caller closes it.
      tls: context that verifies clients.
      make_link: returns a link for a new connection.
    """
    listening.setblocking(False)
    self._listening = listening
    self._tls: relay_tls.Tls = tls
    self._make_link = make_link
    self._in_handshake: list[relay_link.Link] = []
    self._pause: asyncio.TimerHandle | None = None
    self._loop = asyncio.get_running_loop()
    self._resume()

  def close(self) -> None:
    """Stops accepting."""
    if self._pause is not None:
      self._pause.cancel()
    self._loop.remove_reader(self._listening.fileno())

  def _resume(self) -> None:
    self._loop.add_reader(self._listening.fileno(), self._accept)

  def _accept(self) -> None:
    try:
      connection, _ = self._listening.accept()
    except (BlockingIOError, ConnectionAbortedError):
      return  # The client has disconnected meanwhile.
    except OSError:
      self._loop.remove_reader(self._listening.fileno())
      self._pause = self._loop.call_later(_PAUSE_S, self._resume)
      return
    connection.setblocking(False)
    self._in_handshake = [x for x in self._in_handshake if x.is_in_handshake]
    if len(self._in_handshake) >= _HANDSHAKE_LIMIT:
      self._in_handshake.pop(0).cancel_handshake()
    link = self._make_link()
    self._in_handshake.append(link)
    link.start_handshake(connection, self._tls)
