"""Clients, upstreams and admissions for tests of relays."""

import contextlib
import select
import socket
import struct

import psutil

from slipway.replay.transport import relay, relay_link

# Loopback address of the upstreams. On 127.0.0.1, gRPC clients of earlier tests
# still try to reach their server's port, which the kernel may have given to an
# upstream meanwhile.
HOST = "127.0.0.2"

_DEADLINE_S = 30


@contextlib.contextmanager
def run_relay(listen, port, *args, **kwargs):
  """Runs a relay to a port of this machine until the block ends."""
  running = relay.Relay(listen, f"{HOST}:{port}", *args, **kwargs)
  running.start()
  try:
    yield running
  finally:
    running.close()


def connect(address, timeout_s=None):
  """Connects to the address of a relay, and returns the socket."""
  if address.startswith("unix:"):
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(address.removeprefix("unix:"))
  else:
    host, port = address.split(":")
    connection = socket.create_connection((host, int(port)))
  connection.settimeout(timeout_s)
  return connection


def wait_for_end(connection):
  """Waits until the peer has closed; it must not send another byte."""
  with contextlib.suppress(ConnectionResetError):
    assert connection.recv(1) == b""


class RecordingAdmission:
  """Admission that records its calls."""

  def __init__(self, admits=True):
    self.admits = admits
    self.admit_pids = []  # arguments of `admit`
    self.broken = []  # pairs: pid, whether the client had seen the end
    self.reachable = []
    self.client = None

  def admit(self, pid):
    self.admit_pids.append(pid)
    return self.admits

  def on_broken(self, pid):
    seen = self.client and select.select([self.client], [], [], 0)[0]
    self.broken.append((pid, bool(seen)))

  def on_reachable(self, reachable):
    self.reachable.append(reachable)


class Upstream:
  """Listening socket whose connections the test accepts and ends."""

  def __init__(self, port=0):
    self._listening = socket.create_server((HOST, port))
    self._listening.settimeout(_DEADLINE_S)
    self.port = self._listening.getsockname()[1]
    self.address = f"{HOST}:{self.port}"
    self.probes = 0  # number of connections that sent no data

  def __enter__(self):
    return self

  def __exit__(self, *exc):
    self.close()

  def close(self):
    """Stops listening; accepted connections stay open."""
    self._listening.close()

  def accept(self):
    """Accepts a client that sends the preface; counts probes before it."""
    while True:
      connection, _ = self._listening.accept()
      connection.settimeout(_DEADLINE_S)
      if got := receive(connection, len(relay_link.PREFACE)):
        assert got == relay_link.PREFACE
        return connection
      connection.close()
      self.probes += 1

  def wait_for_probe(self):
    """Waits for a connection that ends without sending data."""
    connection, _ = self._listening.accept()
    with connection:
      assert connection.recv(1) == b""

  def has_no_connection(self, for_s=0.0):
    """Returns whether no connection waits to be accepted for some seconds."""
    return not select.select([self._listening], [], [], for_s)[0]


def receive(connection, size):
  """Returns the next bytes; fewer than `size` if the peer ends before."""
  with connection.makefile("rb", buffering=0) as stream:
    got = b""
    while len(got) < size and (data := stream.read(size - len(got))):
      got += data
    return got


def reset(connection):
  """Closes a connection by a reset, like a killed process."""
  connection.setsockopt(
    socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
  )
  connection.close()


def count_sockets(*addresses):
  """Returns the number of this process's sockets with an end at an address.

  All others do not count: clients of earlier tests may have some, too.

  Args:
    *addresses: 'HOST:PORT', 'unix:PATH' or a port.
  """
  wanted = {str(x).removeprefix("unix:").rpartition(":")[2] for x in addresses}

  def is_at(end):
    # An Internet address has host and port, that of a Unix socket is a path.
    return str(end[1] if isinstance(end, tuple) and end else end) in wanted

  return sum(
    is_at(x.laddr) or is_at(x.raddr)
    for x in psutil.Process().net_connections("all")
  )
