"""Client: calls the methods of an object in another process."""

import collections
import functools
import select
import socket
import time
import typing

import msgspec

from slipway.launch.rpc import wire
from slipway.replay.transport import unix_server

_TIMEOUT_S = 3.0
# For the calls that are repeated: longer than a server's restart takes.
_REPLIES_WITHIN_S = 30.0
_RETRY_PERIOD_S = 0.1

Service = typing.TypeVar("Service")


class UnreachableError(ConnectionError):
  """The server is down or does not reply, or the call failed there."""


def connect(
  service: type[Service], path: str, timeout_s: float = _TIMEOUT_S
) -> Service:
  """Returns an object with the methods of a service.

  ```python
  control = connect(control_service.ControlService, "/dev/shm/run/control.sock")
  command = control.report("worker", 0, messages.WorkerReport(env_steps=7))
  ```

  Its methods may be called from several threads. They raise

  - ValueError: one line: the service has rejected the call.
  - UnreachableError: there was no reply. Those that are marked `wire.repeated`
    raise it only after half a minute of attempts.

  Args:
    service: class that declares the methods; see `wire`.
    path: of the server's socket, which need not be there yet.
    timeout_s: seconds for a reply.
  """
  return typing.cast(Service, _Client(service, path, timeout_s))


class _Client:
  """Keeps its connections, of which a call takes one for itself."""

  def __init__(self, service: type, path: str, timeout_s: float):
    self._methods = wire.methods(service)
    self._path, self._timeout_s = path, timeout_s
    self._idle: collections.deque[socket.socket] = collections.deque()

  def __getattr__(self, name: str) -> typing.Any:
    if name not in self.__dict__.get("_methods", ()):
      raise AttributeError(name)
    method = self._methods[name]
    call = self._call_repeatedly if method.repeated else self._call
    return functools.partial(call, name, method)

  def _call_repeatedly(
    self, name: str, method: wire.Method, *arguments: typing.Any
  ) -> typing.Any:
    end_s = time.monotonic() + _REPLIES_WITHIN_S
    while True:
      try:
        return self._call(name, method, *arguments)
      except UnreachableError as error:
        if time.monotonic() > end_s:
          raise UnreachableError(
            f"{error}; after {_REPLIES_WITHIN_S:.0f} s this process does not "
            "try again: the log of the process that serves it may give the "
            "reason"
          ) from error
      time.sleep(_RETRY_PERIOD_S)

  def _call(
    self, name: str, method: wire.Method, *arguments: typing.Any
  ) -> typing.Any:
    request = wire.Request(name, msgspec.Raw(wire.encode(arguments)))
    try:
      connection = self._take()
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

  def _take(self) -> socket.socket:
    while self._idle:
      try:
        connection = self._idle.pop()
      except IndexError:  # another thread has taken the last one
        break
      ended = select.poll()
      ended.register(connection, select.POLLIN)
      if not ended.poll(0):
        return connection
      connection.close()  # the server has closed it
    connection = socket.socket(socket.AF_UNIX)
    try:
      connection.settimeout(self._timeout_s)
      connection.connect(self._path)
      if not unix_server.is_own_user(connection):
        raise PermissionError("another user listens there")
      connection.sendall(wire.PREFACE)
    except BaseException:
      connection.close()
      raise
    return connection
