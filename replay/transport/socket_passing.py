"""Socket passing: connections to a server that only its own process can reach.

A server in a private network namespace has ports that no process outside can
connect to. A process inside connects for those that it trusts, and passes them
the connected socket (SCM_RIGHTS, unix(7)). From then on nothing stands between
client and server.

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
  """Passes connections to a port of this process, from now to `close`."""

  def __init__(self, path: str, port: int):
    """Listens.

    Args:
      path: of the unix socket, which only this user may connect to.
      port: TCP, of this process's loopback.

    Raises:
      ValueError: one line: the path is in use, or too long.
    """
    self._port = port
    self._server = unix_server.UnixServer(path, self._pass)

  def close(self) -> None:
    """Passes no more; connections that were passed stay."""
    self._server.close()

  def _pass(self, client: socket.socket) -> None:
    client.settimeout(_TIMEOUT_S)
    # Where the server is not up, the client sees an end.
    with socket.create_connection(("localhost", self._port)) as connected:
      socket.send_fds(client, [b"\0"], [connected.fileno()])


def connect(path: str) -> socket.socket:
  """Returns a connection to the server behind a `Passer`.

  Raises:
    OSError: there is no such server now.
  """
  with socket.socket(socket.AF_UNIX) as door:
    door.settimeout(_TIMEOUT_S)
    door.connect(path)
    _, descriptors, _, _ = socket.recv_fds(door, 1, 1)
  if not descriptors:
    raise ConnectionRefusedError(f"no server is up behind {path!r}")
  return socket.socket(fileno=descriptors[0])
