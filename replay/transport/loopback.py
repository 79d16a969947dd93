"""Loopback: restricts a listening port to connections from the same host.

The servers of Reverb and Courier always listen on all interfaces, and do not
authenticate clients. On Linux, the server's process can restrict the listening
socket afterwards.
"""

import contextlib
import ctypes
import ipaddress
import os
import socket
import stat
import struct
import time
from collections.abc import Iterator

# Name of the loopback interface.
_DEVICE = "lo"

# Socket option of Linux that attaches a packet filter; Python's socket module
# lacks it.
_SO_ATTACH_FILTER = 26
# Instructions of a classic BPF program: load a word, jump if it equals a
# number, and return.
_LOAD_WORD, _JUMP_IF_EQUAL, _RETURN = 0x20, 0x15, 0x06
# Address from which a classic BPF program loads the index of the packet's
# interface (SKF_AD_OFF + SKF_AD_IFINDEX of Linux).
_INTERFACE_OF_PACKET = 2**32 - 0x1000 + 8
# Return value of a BPF program that accepts the packet, in bytes to keep.
_WHOLE_PACKET = 2**32 - 1

# Offset in bytes, in Linux's struct tcp_info of a listening socket, of the
# number of connections that wait to be accepted.
_UNACCEPTED_OFFSET = 24

# Seconds in which the server has to accept connections that were made before
# the port was restricted.
_ACCEPT_TIMEOUT_S = 5.0
# Seconds between two checks whether connections wait to be accepted.
_ACCEPT_PERIOD_S = 0.01


def confine(port: int) -> None:
  """Restricts a port of this process to connections over loopback.

  Afterwards, the kernel rejects connections from other interfaces. Existing
  ones are shut down before the function returns. Call it as soon as the server
  is up. Clients on this host must connect to a loopback address, such as
  localhost, not to another address of the host.

  Raises:
    OSError: the kernel does not allow the restriction, or the server does not
      accept its waiting connections in time.
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
  """Yields duplicates of this process's TCP sockets with a local port."""
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
  # The filter drops all packets from other interfaces, also the last packet of
  # a handshake that began before, which the bound device would accept. The
  # bound device replies with a reset, so that a remote client need not wait.
  # Some kernels allow the filter to root only, those before 5.7 the device.
  errors: list[OSError] = []
  for restrict in (_attach_loopback_filter, _bind_to_loopback):
    try:
      restrict(listening)
    except OSError as error:
      errors.append(error)
  if len(errors) == 2:
    raise OSError(
      errors[0].errno,
      f"port {port} can't be restricted to this host ({errors[0].strerror}), so"
      " other hosts could connect: run where the kernel allows socket filters"
      " or SO_BINDTODEVICE",
    ) from errors[0]


def _bind_to_loopback(listening: socket.socket) -> None:
  bound = listening.getsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, 16)
  if bound.rstrip(b"\0") != _DEVICE.encode():
    listening.setsockopt(
      socket.SOL_SOCKET, socket.SO_BINDTODEVICE, _DEVICE.encode()
    )


def _attach_loopback_filter(listening: socket.socket) -> None:
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
  """Waits until the server has accepted all waiting connections."""
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
  """Returns the number of connections that the server has not accepted yet."""
  info = listening.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 32)
  return struct.unpack_from("I", info, _UNACCEPTED_OFFSET)[0]


def _is_loopback(host: str) -> bool:
  """Returns whether an IP address, maybe IPv4-mapped, is a loopback address."""
  address = ipaddress.ip_address(host.partition("%")[0])
  mapped = getattr(address, "ipv4_mapped", None)
  return (mapped or address).is_loopback
