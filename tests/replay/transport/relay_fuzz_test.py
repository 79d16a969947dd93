"""Tests of the relay with clients that send garbage, and with a killed server.

The server has its own process, so that it can be killed. Then the descriptors
of the test's process are those of the relay and its clients.
"""

import contextlib
import functools
import os
import random
import socket
import struct
import subprocess
import sys
import threading

import numpy as np
import pytest
import reverb
import tensorflow as tf

from slipway.replay.transport import relay_link
from tests import polling
from tests.replay import forked
from tests.replay.transport import peers

_DEADLINE_S = 60
_relay = functools.partial(peers.run_relay, preface_timeout_s=0.5)
_connect = functools.partial(peers.connect, timeout_s=_DEADLINE_S)
_PREFACE = relay_link.PREFACE
_RECORD_BYTES = 64  # bytes of an item; the first eight hold its number

# Sends frames to a server until the connection ends. Then prints the count that
# the admission has written for this client.
_CLIENT = """
import select, socket, struct, sys
address, counts, index = sys.argv[1], sys.argv[2], int(sys.argv[3])
if address.startswith("unix:"):
  client = socket.socket(socket.AF_UNIX)
  client.connect(address[5:])
else:
  host, port = address.split(":")
  client = socket.create_connection((host, int(port)))
settings = bytes(3) + b"\\4" + bytes(5)
window_update = b"\\0\\0\\4\\10" + bytes(5) + struct.pack(">I", 1)
client.sendall(b"PRI * HTTP/2.0\\r\\n\\r\\nSM\\r\\n\\r\\n" + settings)
received = b""
while True:
  try:
    if select.select([client], [], [], 1e-3)[0]:
      data = client.recv(65_536)
      if not data:
        break
      if not received:
        print("served", flush=True)
      received += data
    client.sendall(window_update)
  except ConnectionError:
    break
with open(counts, "rb") as file:
  print(file.read()[index], flush=True)
"""


class _Server:
  """Reverb server in its own process, which a test can kill."""

  def __init__(self, port=0):
    self.process = forked.Forked(f"{__name__}:serve", port)
    self.port = int(self.process.stdout.readline())

  def __enter__(self):
    return self

  def __exit__(self, *exc):
    self.process.close()

  def kill(self):
    self.process.kill()


def serve(port):
  """Serves a queue of records, and prints its port."""
  record = tf.TensorSpec([_RECORD_BYTES], tf.uint8)
  table = reverb.Table.queue("items", 1_000_000, signature=record)
  server = reverb.Server([table], port=port or None)
  print(server.port, flush=True)
  server.wait()


@pytest.fixture(scope="module")
def server():
  with _Server() as started:
    yield started


class _Writer:
  """Writer of numbered items, in a thread that runs until `end`."""

  def __init__(self, address):
    self.written = 0
    self._stop = threading.Event()
    self._error = None
    self._client = reverb.Client(address)
    self._thread = threading.Thread(target=self._run)
    self._thread.start()

  def end(self):
    """Stops the writer; returns the number of items, all of them confirmed."""
    self._stop.set()
    self._thread.join(_DEADLINE_S)
    assert not self._thread.is_alive()
    assert self._error is None
    return self.written

  def _run(self):
    noise = np.random.default_rng(0)
    try:
      with self._client.trajectory_writer(num_keep_alive_refs=1) as writer:
        while not self._stop.is_set():
          record = noise.integers(0, 256, (_RECORD_BYTES,), np.uint8)
          record[:8] = np.frombuffer(struct.pack("<q", self.written), np.uint8)
          writer.append(record)
          writer.create_item("items", 1.0, writer.history[-1])
          writer.flush(4)
          self.written += 1
        writer.flush()
    except Exception as error:
      self._error = error


def _frame(rng, kind, size, sent=None):
  """Returns an HTTP/2 frame whose header declares `size` bytes.

  The payload has `sent` bytes; None: `size` bytes.
  """
  stream = rng.choice([0, 1, 2, 3, rng.getrandbits(31)])
  head = struct.pack(">I", size)[1:] + bytes([kind, rng.getrandbits(8)])
  payload = rng.randbytes(size if sent is None else sent)
  return head + struct.pack(">I", stream) + payload


_SETTINGS = bytes(3) + b"\4" + bytes(5)


def _frames(rng):
  frames = [
    _frame(rng, rng.randrange(12), rng.choice([0, 4, 8, rng.randrange(99)]))
    for _ in range(rng.randrange(1, 20))
  ]
  # The last frame declares more bytes than it has.
  size = rng.choice([20_000, 2**24 - 1, rng.randrange(100, 16_384)])
  frames.append(_frame(rng, rng.randrange(12), size, rng.randrange(100)))
  return _PREFACE + rng.choice([b"", _SETTINGS]) + b"".join(frames)


# Functions from a random generator to the bytes that a client sends, by name.
# Those in `_NO_PREFACE` are not HTTP/2.
_NO_PREFACE = {
  "nothing": lambda rng: b"",
  "half": lambda rng: _PREFACE[: rng.randrange(1, len(_PREFACE))],
  "noise": lambda rng: b"\0" + rng.randbytes(rng.randrange(4_000)),
}
_PAYLOADS = {
  **_NO_PREFACE,
  "preface only": lambda rng: _PREFACE,
  "preface and noise": lambda rng: (
    _PREFACE + rng.randbytes(rng.randrange(9_999))
  ),
  "frames": _frames,
  # The server replies to each frame.
  "flood": lambda rng: _PREFACE + _SETTINGS * 30_000,
}


def _half_close(connection):
  with contextlib.suppress(OSError):
    connection.shutdown(socket.SHUT_WR)


# How a client continues, by name; a client that stays never reads.
_ENDINGS = {
  "close": socket.socket.close,
  "reset": peers.reset,  # Unix sockets are only closed
  "half close": _half_close,
  "stay": lambda connection: None,
}


def _wait_for_end(connection):
  with contextlib.suppress(ConnectionError):
    while connection.recv(65_536):
      pass


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.chaos)])
def test_garbage_disturbs_no_writer_and_leaves_no_connection(
  server, listen, seed
):
  rng = random.Random(seed)
  with _relay(listen, server.port) as running, contextlib.ExitStack() as stack:
    writer = _Writer(running.address)
    stack.callback(writer.end)
    polling.wait_until(lambda: writer.written > 100)
    ends = running.address, server.port
    stats_before, sockets = running.stats(), peers.count_sockets(*ends)
    stay, refused, count = [], 0, 250
    for _ in range(count):
      payload = rng.choice(list(_PAYLOADS))
      # gRPC stops reading a flood, so it would never read an orderly end.
      orderly = [] if payload == "flood" else ["close"]
      ending = rng.choice(["reset", "half close", "stay", *orderly])
      connection = stack.enter_context(_connect(running.address))
      with contextlib.suppress(ConnectionError):
        connection.sendall(_PAYLOADS[payload](rng))
      _ENDINGS[ending](connection)
      refused += payload in _NO_PREFACE
      if connection.fileno() >= 0:
        stay.append((connection, payload))
      stats = running.stats()
      assert stats.bytes_buffered <= 1_000_000 * stats.connections_open
      running.check()
    for connection, payload in stay:
      if payload in _NO_PREFACE:
        _wait_for_end(connection)  # The relay closes the connection.
    for connection, _ in stay:
      peers.reset(connection)
    while_garbage = writer.written
    open_before = stats_before.connections_open
    polling.wait_until(lambda: running.stats().connections_open == open_before)
    polling.wait_until(lambda: peers.count_sockets(*ends) <= sockets)
    polling.wait_until(lambda: writer.written > while_garbage + 100)
    written = writer.end()
    stats = running.stats()
    assert stats.connections_open == open_before
    assert stats.connections_total == stats_before.connections_total + count
    # A reset discards unread data, maybe the preface, so the relay may count
    # more rejected clients.
    assert refused <= stats.connections_refused < count
    assert stats.connections_failed == 0
    assert stats.bytes_buffered == 0
    running.check()
  assert not server.process.has_ended
  direct = reverb.Client(f"localhost:{server.port}")
  assert direct.server_info(_DEADLINE_S)["items"].current_size == written
  samples = direct.sample("items", written, emit_timesteps=False)
  numbers = [
    struct.unpack("<q", np.ravel(s.data[0])[:8].tobytes())[0] for s in samples
  ]
  assert numbers == list(range(written))  # each once, in order


class _FileAdmission:
  """Admission that counts broken links in a file, one byte per process."""

  def __init__(self, path, processes):
    self._file = os.open(path, os.O_RDWR | os.O_CREAT)
    self._size = processes + 1
    os.pwrite(self._file, bytes(self._size), 0)
    self.index_of = {}  # by pid; all other processes share the last byte
    self.reachable = []

  def counts(self):
    return list(os.pread(self._file, self._size, 0))

  def close(self):
    os.close(self._file)

  def admit(self, pid):
    return True

  def on_broken(self, pid):
    index = self.index_of.get(pid, self._size - 1)
    count = os.pread(self._file, 1, index)[0]
    os.pwrite(self._file, bytes([count + 1]), index)

  def on_reachable(self, reachable):
    self.reachable.append(reachable)


def _has_reply(client):
  # Until gRPC tries to connect again, calls fail at once.
  with contextlib.suppress(RuntimeError):
    return "items" in client.server_info(_DEADLINE_S)
  return False


def test_a_killed_server_is_reported_before_each_client_sees_it(
  listen, tmp_path
):
  path, count = tmp_path / "counts", 8
  with contextlib.ExitStack() as stack:
    server = stack.enter_context(_Server())
    admission = _FileAdmission(path, count)
    stack.callback(admission.close)
    running = stack.enter_context(_relay(listen, server.port, admission))
    client = reverb.Client(running.address)
    assert client.server_info(_DEADLINE_S)["items"].current_size == 0
    by_process = listen.startswith("unix:")
    processes = []
    for index in range(count):
      seen = index if by_process else count
      process = subprocess.Popen(
        [sys.executable, "-c", _CLIENT, running.address, path, str(seen)],
        stdout=subprocess.PIPE,
        text=True,
      )
      stack.enter_context(process)
      stack.callback(process.kill)
      processes.append(process)
      admission.index_of[process.pid] = index
    for process in processes:
      assert process.stdout.readline() == "served\n"
    links = running.stats().connections_open
    assert links > count
    if by_process:
      clients = running.stats().clients
      assert all(clients[process.pid].streams == 1 for process in processes)
    assert admission.reachable == [True]

    server.kill()
    seen = [int(process.stdout.readline()) for process in processes]
    polling.wait_until(lambda: admission.reachable == [True, False])
    if by_process:
      assert seen == [1] * count
      assert admission.counts() == [1] * count + [links - count]
    else:
      assert all(broken >= 1 for broken in seen)
      assert admission.counts() == [0] * count + [links]
    restarted = stack.enter_context(_Server(server.port))
    assert restarted.port == server.port
    polling.wait_until(lambda: admission.reachable == [True, False, True])
    polling.wait_until(lambda: _has_reply(client))
    # Connection attempts without a server add no broken link.
    assert sum(admission.counts()) == links
    running.check()
