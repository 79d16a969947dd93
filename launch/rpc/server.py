"""RPC server: serves the methods of an object at a unix socket."""

import socket
import threading
import typing

import msgspec
from absl import logging

from slipway.launch.rpc import wire
from slipway.replay.transport import unix_server

# Encoded None, in place of the result of a call that failed.
_NO_RESULT = msgspec.Raw(wire.encode(None))


class Server:
  """Server of an object's methods, with one thread per connection.

  It serves processes of this user only, from its construction to `close`. A
  request whose arguments do not have the annotated types is rejected with an
  error, which is logged once per method.
  """

  def __init__(self, path: str, service: type, target: typing.Any):
    """Starts to serve the object at a unix socket.

    Args:
      path: path of the socket; the socket of a dead process is replaced.
      service: class that declares the methods; see `wire`.
      target: the object whose methods are called, which must be thread-safe.

    Raises:
      ValueError: the path is in use, or too long.
    """
    self._methods, self._target = wire.methods(service), target
    self._lock = threading.Lock()
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

  def _serve(self, connection: socket.socket) -> None:
    """Replies to the requests of a connection until the client closes it."""
    try:
      preface = wire.receive_exactly(connection, len(wire.PREFACE))
      if preface is not None and preface != wire.PREFACE:
        raise ValueError("it does not begin with the preface of a client")
      while (data := wire.receive(connection)) is not None:
        wire.send(connection, self._make_reply(data))
    except ValueError as error:
      self._log_rejected("a connection", error)

  def _make_reply(self, data: bytes) -> wire.Reply:
    """Executes an encoded request, and returns the reply with its result."""
    called = "a request"
    try:
      request = msgspec.msgpack.decode(data, type=wire.Request)
      called = request.method
      if called not in self._methods:
        raise ValueError("there is no such method")
      arguments = self._methods[called].arguments.decode(request.arguments)
    except (ValueError, RecursionError) as error:
      self._log_rejected(f"{called[:100]!r}", error)
      return wire.Reply(_NO_RESULT, f"{called[:100]!r}: {error}", rejected=True)
    try:
      result = getattr(self._target, called)(*arguments)
      return wire.Reply(msgspec.Raw(wire.encode(result)))
    except ValueError as error:
      return wire.Reply(_NO_RESULT, str(error), rejected=True)
    except Exception as error:
      logging.exception("%r failed", called)
      return wire.Reply(_NO_RESULT, f"{type(error).__name__}: {error}")

  def _log_rejected(self, rejected: str, error: Exception) -> None:
    """Logs a rejected connection or request, once per text `rejected`.

    After about 100 different texts, nothing more is logged.
    """
    with self._lock:
      if self._closed or rejected in self._logged or len(self._logged) > 100:
        return
      self._logged.add(rejected)
    logging.warning("%s is rejected, once or more: %s", rejected, error)
