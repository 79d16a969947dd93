"""Relay listener: addresses of relays, and sockets that listen on them."""

import contextlib
import os
import socket
import stat

_UNIX = "unix:"
PASSED = "passed:"

# Linux's sockaddr_un has 108 bytes, the last one a zero.
_PATH_LIMIT = 107

# Connections that wait to be accepted; a machine's workers start at once.
_BACKLOG = 1024


def host_and_port(argument: str, address: str) -> tuple[str, int]:
  """Splits 'host:port'; an IPv6 host may have brackets.

  Args:
    argument: the name to use in an error.
    address: the text to split.

  Raises:
    ValueError: the address has another form.
  """
  host, colon, port = address.rpartition(":")
  if not colon or not host or not port.isdecimal() or int(port) > 65_535:
    raise ValueError(
      f"{argument} is {address!r}, which is no address; write 'host:port'"
      " with a port up to 65535."
    )
  return host.removeprefix("[").removesuffix("]"), int(port)


def path_of(address: str, kind: str = _UNIX) -> str | None:
  """Returns the path of an address 'unix:PATH' or 'passed:PATH'.

  Args:
    address: any address.
    kind: prefix of the addresses that have a path, "unix:" or `PASSED`.

  Returns:
    The path; None: the address is of another kind.
  """
  if not address.startswith(kind):
    return None
  return address.removeprefix(kind)


def check(argument: str, address: str) -> None:
  """Raises if the address has no valid form.

  Args:
    argument: the name to use in an error.
    address: 'unix:PATH', 'passed:PATH' (see `socket_passing`) or 'host:port'.

  Raises:
    ValueError: the address has another form, or the path is too long.
  """
  path = path_of(address)
  if path is None:
    path = path_of(address, PASSED)
  if path is None:
    host_and_port(argument, address)
    return
  size = len(os.fsencode(path))
  if not 0 < size <= _PATH_LIMIT:
    raise ValueError(
      f"{argument} is {address!r}, whose path has {size} bytes where a unix"
      f" socket takes 1 to {_PATH_LIMIT}; give a shorter path."
    )


class Listener:
  """A listening socket, from its construction to `close`.

  Attributes:
    socket: the listening socket.
    address: the given address, with the port that was chosen for port 0.
  """

  def __init__(self, address: str):
    """Binds and listens.

    A unix socket that a dead process has left behind is replaced.

    Args:
      address: 'unix:PATH', which only this user may connect to, or 'host:port'.

    Raises:
      ValueError: the address is in use, or cannot be listened on.
    """
    self._path = None
    self._identity = None
    try:
      if address.startswith(_UNIX):
        self._listen_on_path(address.removeprefix(_UNIX))
        self.address = address
      else:
        host, port = host_and_port("listen", address)
        self.socket = socket.create_server(
          (host, port),
          family=socket.AF_INET6 if ":" in host else socket.AF_INET,
          backlog=_BACKLOG,
        )
        port = self.socket.getsockname()[1]
        self.address = f"{address.rpartition(':')[0]}:{port}"
    except OSError as error:
      raise ValueError(
        f"listen is {address!r}, which cannot be listened on"
        f" ({error.strerror or error}), so no worker could connect; stop the"
        " process that uses it, or give another address."
      ) from error

  def close(self) -> None:
    """Stops listening; removes a unix socket's path if it is still its own."""
    self.socket.close()
    if self._path is not None:
      with contextlib.suppress(FileNotFoundError):
        if _identity(self._path) == self._identity:
          os.unlink(self._path)

  def _listen_on_path(self, path: str) -> None:
    _remove_if_stale(path)
    self.socket = socket.socket(socket.AF_UNIX)
    try:
      # The path gets these permissions when it is bound, so another user can't
      # connect at any time.
      os.fchmod(self.socket.fileno(), 0o600)
      self.socket.bind(path)
      self._path, self._identity = path, _identity(path)
      self.socket.listen(_BACKLOG)
    except OSError:
      self.socket.close()
      raise


def _identity(path: str) -> tuple[int, int]:
  status = os.lstat(path)
  return status.st_dev, status.st_ino


def _remove_if_stale(path: str) -> None:
  """Unlinks a socket on which no process listens; leaves any other file."""
  try:
    if not stat.S_ISSOCK(os.lstat(path).st_mode):
      return
  except FileNotFoundError:
    return
  with socket.socket(socket.AF_UNIX) as probe:
    probe.setblocking(False)
    try:
      probe.connect(path)
    except ConnectionRefusedError:
      os.unlink(path)
    except BlockingIOError:
      pass  # Its backlog is full, so a process listens.
