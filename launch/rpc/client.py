"""RPC client: calls the methods of an object in another process."""

import collections
import functools
import select
import socket
import time
import typing

import msgspec

from slipway.launch.rpc import wire
from slipway.replay.transport import unix_server

# Default timeout in seconds of each socket operation of a call.
_CALL_TIMEOUT_S = 3.0
# Seconds for which a method marked `wire.retried` is retried; longer than a
# server's restart takes.
_RETRY_TIMEOUT_S = 30.0
_RETRY_PERIOD_S = 0.1  # seconds between two attempts of a retried call

# Type of the class that declares a service's methods.
Service = typing.TypeVar("Service")


class UnreachableError(ConnectionError):
  """Raised if a call gets no reply, or its method fails in the server."""


def connect(
  service: type[Service], path: str, timeout_s: float = _CALL_TIMEOUT_S
) -> Service:
  """Returns a client of a service: an object with the service's methods.

  ```python
  control = connect(control_service.ControlService, "/dev/shm/run/control.sock")
  command = control.report("worker", 0, messages.WorkerReport(env_steps=7))
  ```

  The object is thread-safe. Its methods raise

  - ValueError if the service has rejected the call;
  - UnreachableError if there was no reply or the method failed. Methods that
    are marked `wire.retried` are retried for 30 s first.

  Args:
    service: class that declares the methods; see `wire`.
    path: path of the server's socket, which need not exist yet.
    timeout_s: timeout in seconds of each socket operation of a call.
  """
  return typing.cast(Service, _Client(service, path, timeout_s))


class _Client:
  """Client of a service, with a pool of idle connections to its server."""

  def __init__(self, service: type, path: str, timeout_s: float):
    """Makes a client without connecting; the arguments are `connect`'s."""
    self._methods = wire.methods(service)
    self._path, self._timeout_s = path, timeout_s
    self._idle: collections.deque[socket.socket] = collections.deque()

  def __getattr__(self, name: str) -> typing.Any:
    """Returns a function that calls the service's method `name`.

    Raises:
      AttributeError: the service has no such method.
    """
    if name not in self.__dict__.get("_methods", ()):
      raise AttributeError(name)
    method = self._methods[name]
    call = self._call_with_retry if method.retried else self._call
    return functools.partial(call, name, method)

  def _call_with_retry(
    self, name: str, method: wire.Method, *arguments: typing.Any
  ) -> typing.Any:
    """Calls a method, and retries a call without a result for 30 s."""
    end_s = time.monotonic() + _RETRY_TIMEOUT_S
    while True:
      try:
        return self._call(name, method, *arguments)
      except UnreachableError as error:
        if time.monotonic() > end_s:
          raise UnreachableError(
            f"{error}; after {_RETRY_TIMEOUT_S:.0f} s this process stops "
            "trying: the log of the server's process may give the reason"
          ) from error
      time.sleep(_RETRY_PERIOD_S)

  def _call(
    self, name: str, method: wire.Method, *arguments: typing.Any
  ) -> typing.Any:
    """Calls a method once, and returns its result."""
    request = wire.Request(name, msgspec.Raw(wire.encode(arguments)))
    try:
      connection = self._take_connection()
      try:
        wire.send(connection, request)
        data = wire.receive(connection)
        if data is None:
          raise ConnectionResetError("the connection was closed")
        reply = msgspec.msgpack.decode(data, type=wire.Reply)
      except BaseException:
        connection.close()
        raise
    except (OSError, ValueError) as error:
      raise UnreachableError(
        f"no reply to {name!r} at {self._path}: {error}"
      ) from error
    self._idle.append(connection)
    if reply.error is None:
      return method.result.decode(reply.result)
    if reply.rejected:
      raise ValueError(reply.error)
    raise UnreachableError(f"{name!r} failed at {self._path}: {reply.error}")

  def _take_connection(self) -> socket.socket:
    """Takes an idle connection from the pool, or opens a new one."""
    while self._idle:
      try:
        connection = self._idle.pop()
      except IndexError:  # another thread has taken the last one
        break
      poller = select.poll()
      poller.register(connection, select.POLLIN)
      # An idle connection has data to read only if the server has closed it.
      if not poller.poll(0):
        return connection
      connection.close()
    connection = socket.socket(socket.AF_UNIX)
    try:
      connection.settimeout(self._timeout_s)
      connection.connect(self._path)
      if not unix_server.is_own_user(connection):
        raise PermissionError("the server belongs to another user")
      connection.sendall(wire.PREFACE)
    except BaseException:
      connection.close()
      raise
    return connection
