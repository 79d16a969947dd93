"""Peers of a relay that is tested: how they connect, and are waited for."""

import contextlib
import socket
import time

from replay import relay


def until(condition, deadline_s):
  """Waits for what other threads do, and returns it; fails at the deadline."""
  end_s = time.monotonic() + deadline_s
  while not (value := condition()):
    assert time.monotonic() < end_s, "deadline"
    time.sleep(0.005)
  return value


@contextlib.contextmanager
def relaying(listen, port, *args, **kwargs):
  """A relay to a port of this machine, which runs until the block ends."""
  running = relay.Relay(listen, f"127.0.0.1:{port}", *args, **kwargs)
  running.start()
  try:
    yield running
  finally:
    running.close()


def connect(address, timeout_s=None):
  """A client of a relay, by its address."""
  if address.startswith("unix:"):
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(address.removeprefix("unix:"))
  else:
    host, port = address.split(":")
    connection = socket.create_connection((host, int(port)))
  connection.settimeout(timeout_s)
  return connection


def wait_for_end(connection):
  """Waits until the other end has closed, without another byte."""
  with contextlib.suppress(ConnectionResetError):
    assert connection.recv(1) == b""
