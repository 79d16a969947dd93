"""Relay listener: parses addresses of relays, and listens on them."""

import contextlib
import os
import socket
import stat

# Prefix of an address 'unix:PATH', a unix socket.
_UNIX = "unix:"
# Prefix of an address 'passed:PATH', a unix socket of `socket_passing.Passer`.
PASSED = "passed:"

# Maximum length in bytes of a unix socket's path: 108 bytes in Linux's
# sockaddr_un, of which the last one is zero.
_PATH_LIMIT = 107

# Maximum number of connections that wait to be accepted. It is large because
# all workers of a machine may connect at the same time.
_BACKLOG = 1024


def host_and_port(argument: str, address: str) -> tuple[str, int]:
  """Splits an address 'host:port' into host and port.

  Args:
    address: text to split; an IPv6 host may have brackets.

  Returns:
    The host without brackets, and the port.

  Raises:
    ValueError: the address is not 'host:port'.
  """
  host, colon, port = address.rpartition(":")
  if not colon or not host or not port.isdecimal() or int(port) > 65_535:
    raise ValueError(
      f"{argument} is {address!r}, which is no address; write 'host:port'"
      " with a port up to 65535."
    )
  return host.removeprefix("[").removesuffix("]"), int(port)


def path_of(address: str, kind: str = _UNIX) -> str | None:
  """Returns the path of 'unix:PATH' or 'passed:PATH', or None for others.

  Args:
    kind: prefix that the address must have, "unix:" or `PASSED`.
  """
  if not address.startswith(kind):
    return None
  return address.removeprefix(kind)


def check(argument: str, address: str) -> None:
  """Raises ValueError if an address has none of the valid forms.

  Args:
    address: 'unix:PATH', 'passed:PATH' (see `socket_passing`) or 'host:port'.

  Raises:
    ValueError: the address has another form, or its path is empty or too long.
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
  """Listening unix or TCP socket, from its construction to `close`.

  Attributes:
    socket: the listening socket.
    address: address that clients connect to, with the actual port if 0 was
      given.
  """

  def __init__(self, address: str):
    """Binds a socket to an address, and listens.

    Replaces a unix socket that a dead process has left behind.

    Args:
      address: 'unix:PATH', to which only this user may connect, or 'host:port'.

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
    """Closes the socket, and deletes its path if it is a unix socket.

    Does not delete the path if another process has replaced the socket.
    """
    self.socket.close()
    if self._path is not None:
      with contextlib.suppress(FileNotFoundError):
        if _device_and_inode(self._path) == self._identity:
          os.unlink(self._path)

  def _listen_on_path(self, path: str) -> None:
    """Listens on a new unix socket to which only this user may connect."""
    _remove_if_stale(path)
    self.socket = socket.socket(socket.AF_UNIX)
    try:
      # The path gets these permissions when it is bound, so another user can't
      # connect at any time.
      os.fchmod(self.socket.fileno(), 0o600)
      self.socket.bind(path)
      self._path, self._identity = path, _device_and_inode(path)
      self.socket.listen(_BACKLOG)
    except OSError:
      self.socket.close()
      raise


def _device_and_inode(path: str) -> tuple[int, int]:
  status = os.lstat(path)
  return status.st_dev, status.st_ino


def _remove_if_stale(path: str) -> None:
  """Deletes a unix socket on which no process listens; keeps any other file."""
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
