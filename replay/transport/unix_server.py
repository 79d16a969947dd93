"""Unix server: serves processes of the same user on a unix socket."""

import contextlib
import os
import socket
import struct
import threading
import time
from collections.abc import Callable

from slipway.replay.transport import relay_listener

# Seconds until the next attempt to accept a connection after an error, mostly a
# lack of file descriptors.
_PAUSE_S = 0.1
# Format of Linux's struct ucred: process, user and group id of a peer.
_UCRED = struct.Struct("3i")


class UnixServer:
  """Server on a unix socket, with a thread per connection, until `close`.

  Processes of other users are disconnected, except those of root.
  """

  def __init__(self, path: str, serve: Callable[[socket.socket], None]):
    """Listens on the socket, and starts to accept connections.

    Args:
      path: path of the socket; a socket that a dead process has left is
        replaced.
      serve: called with each connection, in a separate thread. The connection
        is closed when `serve` returns or raises an OSError.

    Raises:
      ValueError: the path is in use, or too long.
    """
    address = f"unix:{path}"
    relay_listener.check("path", address)
    self._serve, self._closed = serve, False
    self._lock = threading.Lock()
    self._connections: set[socket.socket] = set()
    self._listener = relay_listener.Listener(address)
    self._thread = threading.Thread(
      target=self._accept, name=f"accepts at {path}", daemon=True
    )
    self._thread.start()

  def close(self) -> None:
    """Closes the listening socket and all connections."""
    with self._lock:
      self._closed = True
      connections = tuple(self._connections)
    for open_socket in (self._listener.socket, *connections):
      with contextlib.suppress(OSError):  # It has ended meanwhile.
        open_socket.shutdown(socket.SHUT_RDWR)
    self._thread.join()
    self._listener.close()

  def _accept(self) -> None:
    """Accepts connections until `close`, and starts a thread for each."""
    while not self._closed:
      try:
        connection, _ = self._listener.socket.accept()
      except OSError:
        if not self._closed:
          time.sleep(_PAUSE_S)
        continue
      try:
        threading.Thread(
          target=self._run,
          args=(connection,),
          name="serves a connection",
          daemon=True,
        ).start()
      except RuntimeError:  # The process has reached its limit of threads.
        connection.close()
        time.sleep(_PAUSE_S)

  def _run(self, connection: socket.socket) -> None:
    """Serves one connection in its thread, if its peer is of the same user."""
    with connection:
      with self._lock:
        if self._closed or not is_own_user(connection):
          return
        self._connections.add(connection)
      try:
        with contextlib.suppress(OSError):
          self._serve(connection)
      finally:
        with self._lock:
          self._connections.discard(connection)


def pid_of(connection: socket.socket) -> int:
  """Returns the process id of a connection's peer; 0: unknown, as for TCP."""
  return _credentials(connection)[0]


def is_own_user(connection: socket.socket) -> bool:
  """Returns whether a connection's peer belongs to this user or to root.

  The kernel verifies the peer's user (SO_PEERCRED, unix(7)).
  """
  return _credentials(connection)[1] in (0, os.geteuid())


def _credentials(connection: socket.socket) -> tuple[int, ...]:
  """Returns process, user and group id of a peer; (0, -1, -1) for TCP."""
  if connection.family != socket.AF_UNIX:
    return 0, -1, -1
  credentials = connection.getsockopt(
    socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size
  )
  return _UCRED.unpack(credentials)
