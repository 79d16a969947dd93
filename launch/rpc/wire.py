"""Wire: the protocol by which calls and replies cross a socket.

A service is a class whose public methods have type annotations. A connection
begins with `PREFACE`. Then every request is a frame, and the server sends one
frame in reply. A frame is a length in four bytes and then that many bytes of
msgpack. The receiver decodes arguments and results by the annotations of the
method, so that data of any other type is rejected, and nothing is ever
unpickled.
"""

import socket
import struct
import typing
from collections.abc import Callable

import msgspec

from slipway.launch.runs import records

PREFACE = b"slipway-rpc 1\n"
# Larger than any message, such as a status of thousands of nodes.
_LARGEST_FRAME = 16 * 2**20
_LENGTH = struct.Struct("!I")
_REPEATED = "_rpc_repeated"  # attribute of methods that clients retry

Function = typing.TypeVar("Function", bound=Callable)


class Request(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
  """A request to call a method.

  Attributes:
    method: the method's name.
    arguments: encoded tuple of all arguments.
  """

  method: str
  arguments: msgspec.Raw


class Reply(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
  """The reply to a request.

  Attributes:
    result: encoded result; undefined after an error.
    error: text of the error, or None if the method has returned.
    rejected: whether the method raised ValueError, for a wrong request.
  """

  result: msgspec.Raw
  error: str | None = None
  rejected: bool = False


class Method(typing.NamedTuple):
  """The decoders of a method's arguments and result, by their types.

  Attributes:
    arguments: decoder of the tuple of all arguments.
    result: decoder of the result.
    repeated: whether clients retry the call until there is a reply.
  """

  arguments: msgspec.msgpack.Decoder
  result: msgspec.msgpack.Decoder
  repeated: bool


def repeated(function: Function) -> Function:
  """Decorator of a service's method that clients retry.

  A client calls the method again while the server restarts, until there is a
  reply. So the server may execute one call twice.
  """
  setattr(function, _REPEATED, True)
  return function


def methods(service: type) -> dict[str, Method]:
  """Returns the public methods of a service, by name.

  Args:
    service: a class whose methods have annotations that msgspec supports.
  """
  found = {}
  for name, function in vars(service).items():
    if name.startswith("_") or not callable(function):
      continue
    hints = typing.get_type_hints(function)
    result = hints.pop("return")
    arguments: typing.Any = tuple[tuple(hints.values())]  # type: ignore[misc]
    found[name] = Method(
      msgspec.msgpack.Decoder(arguments),
      msgspec.msgpack.Decoder(result),
      hasattr(function, _REPEATED),
    )
  return found


def encode(message: typing.Any) -> bytes:
  """Encodes a message as bytes; NumPy scalars become Python numbers."""
  return msgspec.msgpack.encode(message, enc_hook=records.to_number)


def send(connection: socket.socket, message: typing.Any) -> None:
  """Sends a message as one frame.

  Raises:
    OSError: the connection is broken, or its timeout has passed.
  """
  data = encode(message)
  connection.sendall(_LENGTH.pack(len(data)) + data)


def receive(connection: socket.socket) -> bytes | None:
  """Receives the bytes of one frame.

  Returns:
    The bytes, or None if the peer has closed the connection.

  Raises:
    OSError: the connection is broken, or its timeout has passed.
    ValueError: the frame is too large for a message.
  """
  header = receive_exactly(connection, _LENGTH.size)
  if header is None:
    return None
  (length,) = _LENGTH.unpack(header)
  if length > _LARGEST_FRAME:
    raise ValueError(
      f"a frame of {length} bytes, where messages have up to {_LARGEST_FRAME}"
    )
  return receive_exactly(connection, length)


def receive_exactly(connection: socket.socket, size: int) -> bytes | None:
  """Receives exactly `size` bytes, or None if the connection closes before."""
  received = bytearray()
  while len(received) < size:
    chunk = connection.recv(size - len(received))
    if not chunk:
      return None
    received += chunk
  return bytes(received)
