"""Loopback: shuts strangers out of servers that bind all interfaces.

Reverb and Courier can bind nothing else, and ask nobody for a name. Linux lets
the process that holds their socket say afterwards whom it hears.

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

# Of Linux's headers, not in Python's module.
_SO_ATTACH_FILTER = 26
_LOAD_WORD, _JUMP_IF_EQUAL, _RETURN = 0x20, 0x15, 0x06  # of a classic BPF
_INTERFACE_OF_PACKET = 2**32 - 0x1000 + 8
_WHOLE_PACKET = 2**32 - 1

# Where struct tcp_info of a listening socket counts those not yet accepted.
_WAITING_AT = 24

# Seconds for the server to accept those that connected before it was confined,
# and for its thread to have them among its files, which takes microseconds.
_ACCEPT_TIMEOUT_S = 5.0
_ACCEPT_PERIOD_S = 0.01


def confine(port: int) -> None:
  """Lets only 'localhost' connect to a port on which this process listens.

  From then on the kernel refuses who comes from another interface; those that
  were connected already are shut down on return. To be called as soon as the
  server is up. This host's own processes reach it by loopback addresses only:
  an answer from lo finds no way to the address of another interface.

  Args:
    port: TCP, on which a server of this process listens.

  Raises:
    OSError: the kernel refuses, or the server accepts nobody.
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
        f"port {port} has no socket of this process that listens: strangers"
        " can't be shut out of it; confine a port where the server runs."
      )
    for connection in listening:
      _confine(connection, port)
    _wait_until_accepted(listening, port)
  for connection in _sockets_at(port):
    with connection, contextlib.suppress(OSError):  # It has ended meanwhile.
      if not _is_loopback(connection.getpeername()[0]):
        connection.shutdown(socket.SHUT_RDWR)


def _sockets_at(port: int) -> Iterator[socket.socket]:
  """Copies of this process's TCP sockets with the port; to be closed."""
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


def _confine(listening: socket.socket, port: int) -> None:
  # The filter drops what comes from elsewhere, also the last packet of a
  # connection that was half made before, which the device alone lets through;
  # the device answers with a reset, so that a stranger's client need not wait.
  # Some kernels keep the one for root, those before 5.7 the other.
  by_filter, by_device = (
    _refusal(_filter, listening),
    _refusal(_bind, listening),
  )
  if by_filter and by_device:
    raise OSError(
      by_filter.errno,
      f"port {port} can't be confined to this host ({by_filter.strerror}), and"
      " strangers could reach it: run where the kernel allows socket filters or"
      " SO_BINDTODEVICE",
    ) from by_filter


def _refusal(
  confine_by: Callable[[socket.socket], None], listening: socket.socket
) -> OSError | None:
  """Why the kernel refuses one of the two; None: it does not."""
  try:
    confine_by(listening)
  except OSError as error:
    return error
  return None


def _bind(listening: socket.socket) -> None:
  """Has the kernel answer on the loopback interface only."""
  bound = listening.getsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, 16)
  if bound.rstrip(b"\0") != _DEVICE.encode():
    listening.setsockopt(
      socket.SOL_SOCKET, socket.SO_BINDTODEVICE, _DEVICE.encode()
    )


def _filter(listening: socket.socket) -> None:
  """Has the kernel look at the interface of each packet."""
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
  # struct sock_fprog: how many instructions, and where.
  listening.setsockopt(
    socket.SOL_SOCKET,
    _SO_ATTACH_FILTER,
    struct.pack("HP", len(program) // 8, ctypes.addressof(memory)),
  )


def _wait_until_accepted(listening: list[socket.socket], port: int) -> None:
  """Waits until none is left of those that connected before."""
  end_s = time.monotonic() + _ACCEPT_TIMEOUT_S
  while any(map(_waiting, listening)):
    if time.monotonic() >= end_s:
      raise TimeoutError(
        f"the server on port {port} has accepted nobody for"
        f" {_ACCEPT_TIMEOUT_S} s, and strangers may be among those that wait:"
        " confine a server that runs."
      )
    time.sleep(_ACCEPT_PERIOD_S)
  time.sleep(_ACCEPT_PERIOD_S)


def _waiting(listening: socket.socket) -> int:
  info = listening.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 32)
  return struct.unpack_from("I", info, _WAITING_AT)[0]


def _is_loopback(host: str) -> bool:
  address = ipaddress.ip_address(host.partition("%")[0])
  mapped = getattr(address, "ipv4_mapped", None)
  return (mapped or address).is_loopback
