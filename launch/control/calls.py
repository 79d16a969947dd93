"""Calls: typed calls of another process's methods over a unix socket.

A service is a class whose public methods have type annotations. A message is a
name and a value as msgpack: the method and its arguments, then the outcome and
its result. Both sides decode by the annotations of the method, so a message of
any other type is rejected, and nothing is ever unpickled.
"""

import collections
import functools
import os
import socket
import struct
import typing
from multiprocessing import connection as connection_lib

import msgspec
from absl import logging

from slipway.launch.runs import records
from slipway.replay.transport import unix_server

# Default timeout in seconds of each socket operation of a client.
_TIMEOUT_S = 3.0
# Longest message in bytes; longer than a status of thousands of nodes.
_MAX_BYTES = 16 * 2**20
# Outcomes of a call. One that is rejected has raised a ValueError, as the
# arguments are wrong; one that has failed has raised another error.
_RETURNED, _REJECTED, _FAILED = "returned", "rejected", "failed"

# Type of the class that declares a service's methods.
Service = typing.TypeVar("Service")


class UnreachableError(ConnectionError):
  """Raised if a call gets no reply, or its method fails in the server."""


class Method(typing.NamedTuple):
  """Decoders of a method, made from its annotations.

  Attributes:
    arguments: decoder of the tuple of all arguments.
    result: decoder of the result.
  """

  arguments: msgspec.msgpack.Decoder
  result: msgspec.msgpack.Decoder


def find_methods(service: type) -> dict[str, Method]:
  """Returns the decoders of a service's public methods, by method name.

  Args:
    service: a class whose methods have annotations that msgspec supports.
  """
  found = {}
  for name, function in vars(service).items():
    if not name.startswith("_") and callable(function):
      hints = typing.get_type_hints(function)
      result = hints.pop("return")
      arguments: typing.Any = tuple[tuple(hints.values())]  # type: ignore[misc]
      found[name] = Method(
        msgspec.msgpack.Decoder(arguments), msgspec.msgpack.Decoder(result)
      )
  return found


def pack(name: str, value: typing.Any) -> bytes:
  """Encodes a message; NumPy scalars become Python numbers."""
  return msgspec.msgpack.encode((name, value), enc_hook=records.to_number)


def unpack(data: bytes) -> tuple[str, msgspec.Raw]:
  """Decodes a message to its name and its value, which is still encoded.

  Raises:
    ValueError: the data is no message.
  """
  return msgspec.msgpack.decode(data, type=tuple[str, msgspec.Raw])


class Server:
  """Serves an object's methods at a unix socket, with a thread per connection.

  It serves processes of this user only, from its construction to `close`. A
  call whose arguments do not have the annotated types is rejected with an
  error, which is logged once per method.
  """

  def __init__(self, path: str, service: type, target: typing.Any):
    """Starts to serve the object.

    Args:
      path: path of the socket; the socket of a dead process is replaced.
      target: the object whose methods are called, which must be thread-safe.

    Raises:
      ValueError: the path is in use, or too long.
    """
    self._methods, self._target = find_methods(service), target
    self._logged: set[str] = set()
    self._closed = False
    self._server = unix_server.UnixServer(path, self._serve)

  def close(self) -> None:
    """Closes the socket and all connections; calls in progress get no reply."""
    self._closed = True
    self._server.close()

  def __enter__(self) -> "Server":
    """Returns this server."""
    return self

  def __exit__(self, error_type, error, traceback) -> None:
    """Closes the server; the arguments are ignored."""
    self.close()

  def _serve(self, peer: socket.socket) -> None:
    """Replies to the calls of a connection until the client closes it."""
    with connection_lib.Connection(os.dup(peer.fileno())) as connection:
      while True:
        try:
          data = connection.recv_bytes(_MAX_BYTES)
        except (EOFError, ConnectionError):
          return
        except OSError as error:
          self._log_rejected("a connection", error)
          return
        connection.send_bytes(self._make_reply(data))

  def _make_reply(self, data: bytes) -> bytes:
    """Executes an encoded call, and returns the encoded outcome."""
    name = "a call"
    try:
      called, encoded = unpack(data)
      if called not in self._methods:
        raise ValueError(f"there is no method {called[:100]!r}")
      name = called
      arguments = self._methods[name].arguments.decode(encoded)
    except (ValueError, RecursionError) as error:
      self._log_rejected(name, error)
      return pack(_REJECTED, f"{name}: {error}")
    try:
      return pack(_RETURNED, getattr(self._target, name)(*arguments))
    except ValueError as error:
      return pack(_REJECTED, str(error))
    except Exception as error:
      logging.exception("%r failed", name)
      return pack(_FAILED, f"{type(error).__name__}: {error}")

  def _log_rejected(self, rejected: str, error: Exception) -> None:
    """Logs a rejected connection or call, once for each method."""
    if not self._closed and rejected not in self._logged:
      self._logged.add(rejected)
      logging.warning("%s is rejected, once or more: %s", rejected, error)


def connect(
  service: type[Service], path: str, timeout_s: float = _TIMEOUT_S
) -> Service:
  """Returns a client of a service: an object with the service's methods.

  ```python
  control = connect(control_service.ControlService, "/dev/shm/run/control.sock")
  command = control.report("worker", 0, messages.WorkerReport(env_steps=7))
  ```

  The object is thread-safe. Its methods raise

  - ValueError if the service has rejected the call;
  - UnreachableError if there was no reply or the method failed.

  Args:
    path: path of the server's socket, which need not exist yet.
    timeout_s: timeout in seconds of each socket operation of a call.
  """
  return typing.cast(Service, _Client(service, path, timeout_s))


class _Client:
  """Client of a service, with a pool of idle connections to its server."""

  def __init__(self, service: type, path: str, timeout_s: float):
    """Makes a client without connecting; the arguments are `connect`'s."""
    self._methods = find_methods(service)
    self._path, self._timeout_s = path, timeout_s
    self._idle: collections.deque[connection_lib.Connection] = (
      collections.deque()
    )

  def __getattr__(self, name: str) -> typing.Any:
    """Returns a function that calls the service's method `name`."""
    if name not in self.__dict__.get("_methods", ()):
      raise AttributeError(name)
    return functools.partial(self._call, name)

  def _call(self, name: str, *arguments: typing.Any) -> typing.Any:
    """Calls a method, and returns its result."""
    data = pack(name, arguments)
    try:
      connection = self._take_connection()
      try:
        connection.send_bytes(data)
        outcome, value = unpack(connection.recv_bytes(_MAX_BYTES))
      except BaseException:
        connection.close()
        raise
    except (EOFError, OSError, ValueError) as error:
      is_late = isinstance(error, BlockingIOError)
      why = "it timed out" if is_late else str(error) or "it was closed"
      raise UnreachableError(
        f"no reply to {name!r} at {self._path}: {why}"
      ) from error
    self._idle.append(connection)
    if outcome == _RETURNED:
      return self._methods[name].result.decode(value)
    text = msgspec.msgpack.decode(value, type=str)
    if outcome == _REJECTED:
      raise ValueError(text)
    raise UnreachableError(f"{name!r} failed at {self._path}: {text}")

  def _take_connection(self) -> connection_lib.Connection:
    """Takes an idle connection from the pool, or opens a new one."""
    while self._idle:
      try:
        connection = self._idle.pop()
      except IndexError:  # another thread has taken the last one
        break
      # An idle connection has data to read only if the server has closed it.
      if not connection.poll():
        return connection
      connection.close()
    with socket.socket(socket.AF_UNIX) as opened:
      # The kernel's own timeouts, which also hold for `Connection`.
      seconds = int(self._timeout_s)
      timeout = struct.pack("ll", seconds, int(self._timeout_s % 1 * 1e6))
      for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
        opened.setsockopt(socket.SOL_SOCKET, option, timeout)
      opened.connect(self._path)
      if not unix_server.is_own_user(opened):
        raise PermissionError("the server belongs to another user")
      return connection_lib.Connection(opened.detach())
