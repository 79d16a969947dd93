"""Wire: the protocol of RPC requests and replies on a socket.

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

# First bytes of a connection, by which the server recognises a client.
PREFACE = b"slipway-rpc 1\n"
# Longest frame that is received, in bytes; larger than any message, such as a
# status of thousands of nodes.
_MAX_FRAME_BYTES = 16 * 2**20
# Header of a frame: the length of the rest, in big-endian order.
_LENGTH_HEADER = struct.Struct("!I")
# Attribute that marks the methods which clients retry.
_RETRIED_MARK = "_rpc_retried"

# Type of a method that `retried` decorates.
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
  """The reply to a request: a result or an error.

  Attributes:
    result: encoded result; undefined after an error.
    error: text of the error, or None if the method has returned.
    rejected: whether the error is a ValueError, because the request is wrong.
  """

  result: msgspec.Raw
  error: str | None = None
  rejected: bool = False


class Method(typing.NamedTuple):
  """Decoders of a service method, and whether clients retry its calls.

  The decoders are made from the method's type annotations.

  Attributes:
    arguments: decoder of the tuple of all arguments.
    result: decoder of the result.
    retried: whether clients retry the call until there is a reply.
  """

  arguments: msgspec.msgpack.Decoder
  result: msgspec.msgpack.Decoder
  retried: bool


def retried(function: Function) -> Function:
  """Marks a service's method as one that clients retry; a decorator.

  A client calls the method again while the server restarts, until there is a
  reply. So the server may execute one call twice.
  """
  setattr(function, _RETRIED_MARK, True)
  return function


def methods(service: type) -> dict[str, Method]:
  """Returns how a service's public methods are called, by method name.

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
      hasattr(function, _RETRIED_MARK),
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
  connection.sendall(_LENGTH_HEADER.pack(len(data)) + data)


def receive(connection: socket.socket) -> bytes | None:
  """Receives one frame.

  Returns:
    The frame's content without the length, or None if the peer has closed the
    connection.

  Raises:
    OSError: the connection is broken, or its timeout has passed.
    ValueError: the frame is too large for a message.
  """
  header = receive_exactly(connection, _LENGTH_HEADER.size)
  if header is None:
    return None
  (length,) = _LENGTH_HEADER.unpack(header)
  if length > _MAX_FRAME_BYTES:
    raise ValueError(
      f"a frame of {length} bytes, where messages have up to {_MAX_FRAME_BYTES}"
    )
  return receive_exactly(connection, length)


def receive_exactly(connection: socket.socket, size: int) -> bytes | None:
  """Returns exactly `size` bytes, or None if the connection closes before."""
  received = bytearray()
  while len(received) < size:
    chunk = connection.recv(size - len(received))
    if not chunk:
      return None
    received += chunk
  return bytes(received)
