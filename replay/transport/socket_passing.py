"""Socket passing: connections to a server in a private network namespace.

No process outside of the namespace can connect to a port inside. So the
server's process connects to its own port on behalf of clients of the same user,
and passes them the connected socket (SCM_RIGHTS, unix(7)). After that, client
and server exchange bytes without a further hop.

```python
passer = Passer('/dev/shm/run/replay.sock', 7000)  # in the server's process
...
connection = connect('/dev/shm/run/replay.sock')  # in any process of this user
```
"""

import socket

from slipway.replay.transport import unix_server

_TIMEOUT_S = 5.0


class Passer:
  """Passes connected sockets of a port of this process, until `close`."""

  def __init__(self, path: str, port: int):
    """Listens.

    Args:
      path: path of the unix socket, which only this user may connect to.
      port: TCP, of this process's loopback.

    Raises:
      ValueError: the path is in use, or too long.
    """
    self._port = port
    self._server = unix_server.UnixServer(path, self._pass)

  def close(self) -> None:
    """Stops passing sockets; those that were passed stay connected."""
    self._server.close()

  def _pass(self, client: socket.socket) -> None:
    client.settimeout(_TIMEOUT_S)
    # If the server is down, the client sees the end of its connection.
    with socket.create_connection(("localhost", self._port)) as connected:
      socket.send_fds(client, [b"\0"], [connected.fileno()])


def connect(path: str) -> socket.socket:
  """Returns a connection to the server of a `Passer`.

  Args:
    path: path of the passer's unix socket.

  Raises:
    OSError: the server or its passer is down.
  """
  with socket.socket(socket.AF_UNIX) as passer:
    passer.settimeout(_TIMEOUT_S)
    passer.connect(path)
    _, descriptors, _, _ = socket.recv_fds(passer, 1, 1)
  if not descriptors:
    raise ConnectionRefusedError(f"the server of {path!r} is down")
  return socket.socket(fileno=descriptors[0])
