"""Peers of a relay that is tested: how they connect, and are waited for."""

import contextlib
import select
import socket
import struct
import time

from slipway.replay.transport import relay, relay_link

_DEADLINE_S = 30


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


class RecordingAdmission:
  """Writes down what it is asked and told."""

  def __init__(self, admits=True):
    self.admits = admits
    self.asked = []  # pids
    self.broken = []  # pids, and whether the client had seen the end
    self.reachable = []
    self.client = None

  def admit(self, pid):
    self.asked.append(pid)
    return self.admits

  def on_broken(self, pid):
    seen = self.client and select.select([self.client], [], [], 0)[0]
    self.broken.append((pid, bool(seen)))

  def on_reachable(self, reachable):
    self.reachable.append(reachable)


class Upstream:
  """A listening socket whose connections the test ends as it likes."""

  def __init__(self, port=0):
    self._listening = socket.create_server(("127.0.0.1", port))
    self._listening.settimeout(_DEADLINE_S)
    self.port = self._listening.getsockname()[1]
    self.visits = 0  # Connections that said nothing, such as probes.

  def __enter__(self):
    return self

  def __exit__(self, *exc):
    self.close()

  def close(self):
    """Listens no more."""
    self._listening.close()

  def accept(self):
    """Waits for a client, and takes its preface."""
    while True:
      connection, _ = self._listening.accept()
      connection.settimeout(_DEADLINE_S)
      if got := take(connection, len(relay_link.PREFACE)):
        assert got == relay_link.PREFACE
        return connection
      connection.close()
      self.visits += 1

  def wait_for_visit(self):
    """Waits for one that says nothing."""
    connection, _ = self._listening.accept()
    with connection:
      assert connection.recv(1) == b""

  def is_left_alone(self, for_s=0.0):
    """Whether nobody waits to be accepted, nor comes within seconds."""
    return not select.select([self._listening], [], [], for_s)[0]


def take(connection, size):
  """The next bytes; fewer where the peer ends before."""
  with connection.makefile("rb", buffering=0) as stream:
    got = b""
    while len(got) < size and (data := stream.read(size - len(got))):
      got += data
    return got


def reset(connection):
  """Ends it as a process that was killed."""
  connection.setsockopt(
    socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
  )
  connection.close()
