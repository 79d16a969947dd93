"""Socket passing: connections to a server in a private network namespace.

Processes outside of the namespace cannot connect to a port inside. So the
server's process connects to its own port for each client of the same user. It
passes the connected socket to the client (SCM_RIGHTS, unix(7)). Afterwards,
client and server exchange bytes directly.
"""

import socket

from slipway.replay.transport import unix_server

# Timeout in seconds of each socket operation that passes a socket.
_TIMEOUT_S = 5.0


class Passer:
  """Server that passes clients a socket that is connected to a local port.

  Serves clients on a unix socket in a separate thread, until `close`.
  """

  def __init__(self, path: str, port: int):
    """Starts to serve clients.

    Args:
      path: path of the unix socket, to which only this user may connect.

    Raises:
      ValueError: the path is in use, or too long.
    """
    self._port = port
    self._server = unix_server.UnixServer(path, self._pass)

  def close(self) -> None:
    """Stops passing sockets; sockets that were passed stay connected."""
    self._server.close()

  def _pass(self, client: socket.socket) -> None:
    """Connects a socket to the port, and sends the socket to a client."""
    client.settimeout(_TIMEOUT_S)
    # If the server is down, the client sees the end of its connection.
    with socket.create_connection(("127.0.0.1", self._port)) as connected:
      socket.send_fds(client, [b"\0"], [connected.fileno()])


def connect(path: str) -> socket.socket:
  """Returns a socket, passed by a `Passer`, that is connected to its port.

  Args:
    path: path of the passer's unix socket.

  Raises:
    OSError: the passer, or the server on its port, is down.
  """
  with socket.socket(socket.AF_UNIX) as passer:
    passer.settimeout(_TIMEOUT_S)
    passer.connect(path)
    _, descriptors, _, _ = socket.recv_fds(passer, 1, 1)
  if not descriptors:
    raise ConnectionRefusedError(f"the server of {path!r} is down")
  return socket.socket(fileno=descriptors[0])
