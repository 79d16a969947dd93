"""Tests of the relay under garbage, and under a server that is killed.

The server has a process of its own, so that it can be killed, and so that what
is counted in this one is the relay's.
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
from tests.replay import forked
from tests.replay.transport import peers

_DEADLINE_S = 60
_until = functools.partial(peers.until, deadline_s=_DEADLINE_S)
_relay = functools.partial(peers.relaying, preface_timeout_s=0.5)
_connect = functools.partial(peers.connect, timeout_s=_DEADLINE_S)
_PREFACE = relay_link.PREFACE
_ROW = 64  # bytes of an item, the first eight of which number it

# Streams to a server until its connection ends; prints what the server wrote.
_CLIENT = """
import select, socket, struct, sys
address, words, index = sys.argv[1], sys.argv[2], int(sys.argv[3])
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
with open(words, "rb") as file:
  print(file.read()[index], flush=True)
"""


class _Server:
  """A Reverb server in a process of its own, from construction to `kill`."""

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
  """Serves a queue of records; prints the port."""
  record = tf.TensorSpec([_ROW], tf.uint8)
  table = reverb.Table.queue("items", 1_000_000, signature=record)
  server = reverb.Server([table], port=port or None)
  print(server.port, flush=True)
  server.wait()


@pytest.fixture(scope="module")
def server():
  with _Server() as started:
    yield started


class _Writer:
  """Numbers items and writes them in a thread, until it is told to end."""

  def __init__(self, address):
    self.written = 0
    self._stop = threading.Event()
    self._error = None
    self._client = reverb.Client(address)
    self._thread = threading.Thread(target=self._run)
    self._thread.start()

  def end(self):
    """Waits until all is confirmed; returns how many there are."""
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
          record = noise.integers(0, 256, (_ROW,), np.uint8)
          record[:8] = np.frombuffer(struct.pack("<q", self.written), np.uint8)
          writer.append(record)
          writer.create_item("items", 1.0, writer.history[-1])
          writer.flush(4)
          self.written += 1
        writer.flush()
    except Exception as error:
      self._error = error


def _frame(draw, kind, size, sent=None):
  """An HTTP/2 frame that says it has `size` bytes, and has `sent`."""
  stream = draw.choice([0, 1, 2, 3, draw.getrandbits(31)])
  head = struct.pack(">I", size)[1:] + bytes([kind, draw.getrandbits(8)])
  payload = draw.randbytes(size if sent is None else sent)
  return head + struct.pack(">I", stream) + payload


_SETTINGS = bytes(3) + b"\4" + bytes(5)


def _frames(draw):
  frames = [
    _frame(draw, draw.randrange(12), draw.choice([0, 4, 8, draw.randrange(99)]))
    for _ in range(draw.randrange(1, 20))
  ]
  # The last one promises more than comes.
  size = draw.choice([20_000, 2**24 - 1, draw.randrange(100, 16_384)])
  frames.append(_frame(draw, draw.randrange(12), size, draw.randrange(100)))
  return _PREFACE + draw.choice([b"", _SETTINGS]) + b"".join(frames)


# What a client may say, by name; those that are no HTTP/2 come first.
_NO_PREFACE = {
  "nothing": lambda draw: b"",
  "half": lambda draw: _PREFACE[: draw.randrange(1, len(_PREFACE))],
  "noise": lambda draw: b"\0" + draw.randbytes(draw.randrange(4_000)),
}
_SAYINGS = {
  **_NO_PREFACE,
  "no more": lambda draw: _PREFACE,
  "noise after": lambda draw: _PREFACE + draw.randbytes(draw.randrange(9_999)),
  "frames": _frames,
  # Each is answered.
  "flood": lambda draw: _PREFACE + _SETTINGS * 30_000,
}


def _reset(connection):
  # A unix socket has no reset, and is closed.
  connection.setsockopt(
    socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
  )
  connection.close()


def _half_close(connection):
  with contextlib.suppress(OSError):
    connection.shutdown(socket.SHUT_WR)


# How a client goes on; those that stay never read.
_ENDINGS = {
  "close": socket.socket.close,
  "reset": _reset,
  "half close": _half_close,
  "stay": lambda connection: None,
}


def _descriptors():
  return len(os.listdir("/proc/self/fd"))


def _wait_for_end(connection):
  with contextlib.suppress(ConnectionError):
    while connection.recv(65_536):
      pass


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.chaos)])
def test_garbage_disturbs_no_writer_and_leaves_nothing(server, listen, seed):
  draw = random.Random(seed)
  with (
    _relay(listen, server.port) as running,
    contextlib.ExitStack() as stack,
  ):
    writer = _Writer(running.address)
    stack.callback(writer.end)
    _until(lambda: writer.written > 100)
    before = running.stats(), _descriptors()
    stay, refused, count = [], 0, 400
    for _ in range(count):
      saying = draw.choice(list(_SAYINGS))
      # gRPC reads no more of a flood, and hears of no orderly end behind it.
      orderly = [] if saying == "flood" else ["close"]
      ending = draw.choice(["reset", "half close", "stay", *orderly])
      connection = stack.enter_context(_connect(running.address))
      with contextlib.suppress(ConnectionError):
        connection.sendall(_SAYINGS[saying](draw))
      _ENDINGS[ending](connection)
      refused += saying in _NO_PREFACE
      if connection.fileno() >= 0:
        stay.append((connection, saying))
      stats = running.stats()
      assert stats.bytes_buffered <= 1_000_000 * stats.connections_open
      running.check()
    for connection, saying in stay:
      if saying in _NO_PREFACE:
        _wait_for_end(connection)  # The relay closes it, if the client stays.
    for connection, _ in stay:
      _reset(connection)
    while_garbage = writer.written
    open_before = before[0].connections_open
    _until(lambda: running.stats().connections_open == open_before)
    # What an earlier test's gRPC still held may be gone, too.
    _until(lambda: _descriptors() <= before[1])
    _until(lambda: writer.written > while_garbage + 100)
    written = writer.end()
    stats = running.stats()
    assert stats.connections_open == open_before
    assert stats.connections_total == before[0].connections_total + count
    # A reset takes back what the relay has not read, also a preface.
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
  assert numbers == list(range(written))  # Each once, in order.


class _Gate:
  """Writes to a file, as memory that clients share, whose links broke."""

  def __init__(self, path, processes):
    self._file = os.open(path, os.O_RDWR | os.O_CREAT)
    self._size = processes + 1
    os.pwrite(self._file, bytes(self._size), 0)
    self.index_of = {}  # by pid; all others share the last
    self.reachable = []

  def words(self):
    return list(os.pread(self._file, self._size, 0))

  def close(self):
    os.close(self._file)

  def admit(self, pid):
    return True

  def on_broken(self, pid):
    index = self.index_of.get(pid, self._size - 1)
    word = os.pread(self._file, 1, index)[0]
    os.pwrite(self._file, bytes([word + 1]), index)

  def on_reachable(self, reachable):
    self.reachable.append(reachable)


def _is_answered(client):
  # Calls fail at once until gRPC tries to connect again.
  with contextlib.suppress(RuntimeError):
    return "items" in client.server_info(_DEADLINE_S)
  return False


def test_a_killed_server_is_told_to_each_client_before_it_sees_it(
  listen, tmp_path
):
  path, count = tmp_path / "words", 8
  with contextlib.ExitStack() as stack:
    server = stack.enter_context(_Server())
    admission = _Gate(path, count)
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
    _until(lambda: admission.reachable == [True, False])
    if by_process:
      assert seen == [1] * count
      assert admission.words() == [1] * count + [links - count]
    else:
      assert all(word >= 1 for word in seen)
      assert admission.words() == [0] * count + [links]
    restarted = stack.enter_context(_Server(server.port))
    assert restarted.port == server.port
    _until(lambda: admission.reachable == [True, False, True])
    _until(lambda: _is_answered(client))
    # What could not connect meanwhile had no link to break.
    assert sum(admission.words()) == links
    running.check()
