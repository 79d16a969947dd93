"""Relay peer: what the kernel is told and asked about who is connected."""

import select
import socket
from typing import Any

# Seconds: a peer that vanished without a word is noticed after about
# 60 + 3 * 20.
_KEEPALIVE_IDLE_S = 60
_KEEPALIVE_INTERVAL_S = 20
_KEEPALIVE_PROBES = 3

# Seconds until a vanished peer that was written to is noticed: no keepalive is
# sent then. A live one that leaves its socket full for as long is taken for
# vanished, too; gRPC is none, it reads on while a rate limiter blocks.
_USER_TIMEOUT_S = 120


def configure(connection: socket.socket) -> None:
  """Sends small writes at once, and has vanished peers noticed."""
  if connection.family == socket.AF_UNIX:
    return
  # An item is a few small writes which the other end waits for.
  connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
  connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
  for option, value in (
    (socket.TCP_KEEPIDLE, _KEEPALIVE_IDLE_S),
    (socket.TCP_KEEPINTVL, _KEEPALIVE_INTERVAL_S),
    (socket.TCP_KEEPCNT, _KEEPALIVE_PROBES),
    (socket.TCP_USER_TIMEOUT, _USER_TIMEOUT_S * 1_000),
  ):
    connection.setsockopt(socket.IPPROTO_TCP, option, value)


def has_ended(transport: Any) -> bool:
  """Whether the peer sends no more, also if its end is not yet read.

  True, too, once we have closed it ourselves.
  """
  return _is_told(transport, select.POLLRDHUP)


def is_gone(transport: Any) -> bool:
  """Whether the peer does not even read any more, as far as is known.

  A unix socket tells at once; TCP tells a reset, or what keepalive finds.
  """
  return _is_told(transport, 0)


def _is_told(transport: Any, events: int) -> bool:
  if transport.is_closing():
    return True
  poll = select.poll()
  # POLLHUP and POLLERR are told besides.
  poll.register(transport.get_extra_info("socket").fileno(), events)
  return bool(poll.poll(0))
