"""Relay door: accepts other relays, which have to show a certificate."""

import asyncio
import socket
from collections.abc import Callable

from slipway.replay.transport import relay_link, relay_tls

# Clients that may be at their handshake at once, which takes milliseconds: a
# stranger who opens more and says nothing would use up the process's files.
_ENTERING_LIMIT = 128

# Seconds without accepting where the kernel could not, mostly for want of
# files.
_PAUSE_S = 0.1


class Door:
  """Gives each connection to a link, from its construction to `close`."""

  def __init__(
    self,
    listening: socket.socket,
    tls: relay_tls.Tls,
    make_link: Callable[[], relay_link.Link],
  ):
    """Accepts from now on, in the loop that runs this.

    Args:
      listening: a socket that listens; it stays its owner's.
      tls: what a client is asked for.
      make_link: called with each connection.
    """
    listening.setblocking(False)
    self._listening = listening
    self._tls: relay_tls.Tls = tls
    self._make_link = make_link
    self._entering: list[relay_link.Link] = []
    self._pause: asyncio.TimerHandle | None = None
    self._loop = asyncio.get_running_loop()
    self._resume()

  def close(self) -> None:
    """Accepts no more."""
    if self._pause is not None:
      self._pause.cancel()
    self._loop.remove_reader(self._listening.fileno())

  def _resume(self) -> None:
    self._loop.add_reader(self._listening.fileno(), self._accept)

  def _accept(self) -> None:
    try:
      connection, _ = self._listening.accept()
    except (BlockingIOError, ConnectionAbortedError):
      return  # It has gone meanwhile.
    except OSError:
      self._loop.remove_reader(self._listening.fileno())
      self._pause = self._loop.call_later(_PAUSE_S, self._resume)
      return
    connection.setblocking(False)
    self._entering = [link for link in self._entering if link.is_entering]
    if len(self._entering) >= _ENTERING_LIMIT:
      self._entering.pop(0).refuse()
    link = self._make_link()
    self._entering.append(link)
    link.enter(connection, self._tls)
