"""Loopback: restricts a listening port to connections from the same host.

The servers of Reverb and Courier always bind all interfaces, and authenticate
no client. On Linux, the process that holds the socket can restrict it later.

```python
server = reverb.Server(tables, port=7000)
loopback.confine(7000)
```
"""

import contextlib
import ctypes
import ipaddress
import os
import socket
import stat
import struct
import time
from collections.abc import Callable, Iterator

_DEVICE = "lo"

# Constants of Linux that Python's socket module lacks.
_SO_ATTACH_FILTER = 26
_LOAD_WORD, _JUMP_IF_EQUAL, _RETURN = 0x20, 0x15, 0x06  # classic BPF
_INTERFACE_OF_PACKET = 2**32 - 0x1000 + 8
_WHOLE_PACKET = 2**32 - 1

# Offset in struct tcp_info of the connections that wait to be accepted.
_WAITING_AT = 24

# Seconds for the server to accept earlier connections. After that, its thread
# needs microseconds to have them among the process's file descriptors.
_ACCEPT_TIMEOUT_S = 5.0
_ACCEPT_PERIOD_S = 0.01


def confine(port: int) -> None:
  """Restricts a port of this process to connections over loopback.

  From then on the kernel rejects connections from other interfaces; those that
  exist already are shut down on return. To be called as soon as the server is
  up. Processes of this host have to connect to a loopback address: a reply from
  the interface lo has no route to the address of another interface.

  Args:
    port: TCP, on which a server of this process listens.

  Raises:
    OSError: the kernel rejects it, or the server accepts no connection.
    ValueError: no socket of this process listens on the port.
  """
  with contextlib.ExitStack() as stack:
    listening = [
      stack.enter_context(connection)
      for connection in _sockets_at(port)
      if connection.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
    ]
    if not listening:
      raise ValueError(
        f"no socket of this process listens on port {port}, so the port can't"
        " be restricted to this host; call this in the server's process."
      )
    for connection in listening:
      _restrict_to_loopback(connection, port)
    _wait_until_accepted(listening, port)
  for connection in _sockets_at(port):
    with connection, contextlib.suppress(OSError):  # It has ended meanwhile.
      if not _is_loopback(connection.getpeername()[0]):
        connection.shutdown(socket.SHUT_RDWR)


def _sockets_at(port: int) -> Iterator[socket.socket]:
  """Yields copies of this process's TCP sockets with the port; to be closed."""
  for name in os.listdir("/proc/self/fd"):
    try:
      is_socket = stat.S_ISSOCK(os.fstat(int(name)).st_mode)
      copy = socket.socket(fileno=os.dup(int(name))) if is_socket else None
    except OSError:  # It was closed meanwhile.
      continue
    if copy is not None:
      if _is_tcp_at(copy, port):
        yield copy
      else:
        copy.close()


def _is_tcp_at(connection: socket.socket, port: int) -> bool:
  return (
    connection.family in (socket.AF_INET, socket.AF_INET6)
    and connection.type == socket.SOCK_STREAM
    and connection.getsockname()[1] == port
  )


def _restrict_to_loopback(listening: socket.socket, port: int) -> None:
  """Restricts one socket by a filter, by its interface, or by both."""
  # The filter drops all packets from other interfaces, also the last packet of
  # a handshake that began before, which the bound device would accept. The
  # bound device replies with a reset, so that a remote client need not wait.
  # Some kernels allow the filter to root only, those before 5.7 the device.
  by_filter, by_device = (
    _error_of(_attach_loopback_filter, listening),
    _error_of(_bind_to_loopback, listening),
  )
  if by_filter and by_device:
    raise OSError(
      by_filter.errno,
      f"port {port} can't be restricted to this host ({by_filter.strerror}), so"
      " other hosts could connect: run where the kernel allows socket filters"
      " or SO_BINDTODEVICE",
    ) from by_filter


def _error_of(
  confine_by: Callable[[socket.socket], None], listening: socket.socket
) -> OSError | None:
  """Returns the kernel's error for one of the two; None: it has worked."""
  try:
    confine_by(listening)
  except OSError as error:
    return error
  return None


def _bind_to_loopback(listening: socket.socket) -> None:
  """Binds the socket to the loopback interface."""
  bound = listening.getsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, 16)
  if bound.rstrip(b"\0") != _DEVICE.encode():
    listening.setsockopt(
      socket.SOL_SOCKET, socket.SO_BINDTODEVICE, _DEVICE.encode()
    )


def _attach_loopback_filter(listening: socket.socket) -> None:
  """Attaches a filter that drops packets from other interfaces."""
  program = b"".join(
    struct.pack("HBBI", *instruction)
    for instruction in (
      (_LOAD_WORD, 0, 0, _INTERFACE_OF_PACKET),
      (_JUMP_IF_EQUAL, 0, 1, socket.if_nametoindex(_DEVICE)),
      (_RETURN, 0, 0, _WHOLE_PACKET),
      (_RETURN, 0, 0, 0),
    )
  )
  memory = ctypes.create_string_buffer(program, len(program))
  # struct sock_fprog: the number of instructions, and their address.
  listening.setsockopt(
    socket.SOL_SOCKET,
    _SO_ATTACH_FILTER,
    struct.pack("HP", len(program) // 8, ctypes.addressof(memory)),
  )


def _wait_until_accepted(listening: list[socket.socket], port: int) -> None:
  """Waits until the server has accepted all earlier connections."""
  end_s = time.monotonic() + _ACCEPT_TIMEOUT_S
  while any(map(_unaccepted_connections, listening)):
    if time.monotonic() >= end_s:
      raise TimeoutError(
        f"the server on port {port} has accepted no connection for"
        f" {_ACCEPT_TIMEOUT_S} s, and other hosts may be among those that wait:"
        " call this after the server has started."
      )
    time.sleep(_ACCEPT_PERIOD_S)
  time.sleep(_ACCEPT_PERIOD_S)


def _unaccepted_connections(listening: socket.socket) -> int:
  """Returns the connections that the kernel made and no one accepted."""
  info = listening.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 32)
  return struct.unpack_from("I", info, _WAITING_AT)[0]


def _is_loopback(host: str) -> bool:
  address = ipaddress.ip_address(host.partition("%")[0])
  mapped = getattr(address, "ipv4_mapped", None)
  return (mapped or address).is_loopback
