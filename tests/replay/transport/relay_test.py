"""Tests of the relay between real Reverb clients and a real server."""

import contextlib
import fcntl
import os
import socket
import stat
import sys
import termios
import threading
import time

import numpy as np
import pytest
import reverb
import tensorflow as tf

from slipway.replay.transport import relay, relay_link, relay_side
from tests import polling
from tests.replay.transport import peers

_RECORD = tf.TensorSpec([52], tf.uint8)
_DEADLINE_S = 30
_connect = peers.connect
_relay = peers.run_relay
_wait_for_end = peers.wait_for_end


def _server(max_size: int = 1_000, signature=_RECORD) -> reverb.Server:
  return reverb.Server(
    [
      reverb.Table(
        "items",
        sampler=reverb.selectors.Prioritized(1.0),
        remover=reverb.selectors.Fifo(),
        max_size=max_size,
        rate_limiter=reverb.rate_limiters.MinSize(1),
        signature=signature,
      ),
      reverb.Table.queue(
        "queue", 10, signature=tf.TensorSpec([None], tf.uint8)
      ),
    ]
  )


def _stream(address: str) -> socket.socket:
  """Returns a client that has sent the HTTP/2 preface."""
  connection = _connect(address)
  connection.sendall(relay_link.PREFACE)
  connection.settimeout(_DEADLINE_S)
  return connection


def _unsent(running: relay.Relay) -> int:
  """Returns the bytes in the kernel's send buffers towards the upstream."""
  return sum(
    int.from_bytes(
      fcntl.ioctl(
        link.server.transport.get_extra_info("socket").fileno(),
        termios.TIOCOUTQ,
        bytes(4),
      ),
      sys.byteorder,
    )
    for link in tuple(running._links)
  )


def _write(writer, table: str, value, size: int) -> None:
  writer.append(np.full(size, value, np.uint8))
  writer.create_item(table, 1.0, writer.history[-1])


def test_reverbs_calls_pass(listen):
  server = _server()
  with _relay(listen, server.port) as running:
    client = reverb.Client(running.address)
    with client.trajectory_writer(num_keep_alive_refs=1) as writer:
      for value in range(100):
        _write(writer, "items", value, 52)
        if value % 16 == 15:
          writer.flush(40)
      writer.flush(timeout_ms=10_000)
    assert client.server_info(10)["items"].current_size == 100
    [sample] = client.sample("items", 1, emit_timesteps=False)
    client.mutate_priorities(
      "items", updates={sample.info.key: 1e9}, deletes=[]
    )
    again = client.sample("items", 20, emit_timesteps=False)
    # The priorities of the other items add up to 99, that of this one is 1e9.
    assert {s.info.key for s in again} == {sample.info.key}
    stats = running.stats()
    assert stats.connections_open >= 1
    assert stats.connections_failed == 0
    assert stats.bytes_up > 100 and stats.bytes_down > 100


def test_a_blocked_limiter_blocks_its_writer_and_loses_nothing(listen):
  server = _server()
  items, size = 60, 250_000
  noise = np.random.default_rng(0).integers(0, 256, (items, size), np.uint8)
  with _relay(listen, server.port) as running:
    client = reverb.Client(running.address)
    written = []

    def write():
      with client.trajectory_writer(num_keep_alive_refs=1) as writer:
        for record in noise:
          writer.append(record)
          writer.create_item("queue", 1.0, writer.history[-1])
          writer.flush(20)
          written.append(record)
        writer.flush()

    thread = threading.Thread(target=write)
    thread.start()
    queue = server.localhost_client()
    polling.wait_until(
      lambda: queue.server_info(10)["queue"].current_size == 10
    )
    # gRPC may still send pings, so the flow has stopped if ten consecutive
    # checks see no further record written and less than a record's bytes.
    seen = []

    def latest():
      seen.append((len(written), running.stats().bytes_up))
      time.sleep(0.02)
      return seen[-10:]

    def stopped(checks):
      (first, first_bytes), (last, last_bytes) = checks[0], checks[-1]
      return (
        len(checks) == 10 and first == last and last_bytes - first_bytes < size
      )

    polling.wait_until(latest, wanted=stopped)
    assert len(written) < items
    assert running.stats().bytes_buffered <= 1_000_000
    # With unsent bytes, the kernel's user timeout would close the stream.
    polling.wait_until(lambda: _unsent(running) == 0)
    got = [
      np.ravel(sample.data[0])
      for sample in queue.sample("queue", items, emit_timesteps=False)
    ]
    thread.join(_DEADLINE_S)
    assert not thread.is_alive()
  np.testing.assert_array_equal(got, noise)  # each once, in order
  assert queue.server_info(10)["queue"].current_size == 0


def _echo_server(rest: bytes):
  """Starts a server that sends `rest` and all received bytes after the end.

  Returns:
    The port of the server, which serves one client.
  """
  listening = socket.create_server((peers.HOST, 0))

  def serve():
    connection, _ = listening.accept()
    with listening, connection:
      got = b""
      while data := connection.recv(65_536):
        got += data
      connection.sendall(rest + got)

  threading.Thread(target=serve, daemon=True).start()
  return listening.getsockname()[1]


def test_a_client_that_ended_still_gets_its_reply(listen):
  port = _echo_server(b"answer")
  data = os.urandom(3_000_000)
  with _relay(listen, port) as running, _stream(running.address) as client:
    client.sendall(data)
    client.shutdown(socket.SHUT_WR)
    got = b""
    while chunk := client.recv(65_536):
      got += chunk
    data = relay_link.PREFACE + data
    assert got == b"answer" + data
    polling.wait_until(lambda: running.stats().connections_open == 0)
    stats = running.stats()
    assert (stats.bytes_up, stats.bytes_down) == (len(data), len(data) + 6)


def test_the_memory_for_a_peer_that_does_not_read_is_limited(listen):
  with socket.create_server((peers.HOST, 0)) as upstream:
    port = upstream.getsockname()[1]
    with _relay(listen, port) as running, _stream(running.address) as client:
      client.settimeout(0.3)
      sent = len(relay_link.PREFACE)
      with pytest.raises(TimeoutError):
        while sent < 100_000_000:
          sent += client.send(bytes(100_000))
      # The limit is 512 KiB, which one read may exceed.
      assert 0 < running.stats().bytes_buffered <= 1_000_000
      peer, _ = upstream.accept()
      with peer:
        client.shutdown(socket.SHUT_WR)
        got = 0
        while data := peer.recv(1_000_000):
          got += len(data)
        assert got == sent


def test_a_peer_that_reads_nothing_for_long_is_disconnected(monkeypatch):
  # The sender's kernel cannot distinguish a vanished peer from one that does
  # not read.
  monkeypatch.setattr(relay_side, "_USER_TIMEOUT_S", 1)
  with socket.create_server((peers.HOST, 0)) as upstream:
    port = upstream.getsockname()[1]
    with (
      _relay("127.0.0.1:0", port) as running,
      _stream(running.address) as client,
      contextlib.suppress(ConnectionError),
    ):
      while running.stats().connections_open or not running.stats().bytes_up:
        client.sendall(bytes(100_000))
    running.check()


def test_close_leaves_no_thread_no_socket_and_no_connection(listen):
  port = _echo_server(b"")
  before = set(threading.enumerate())
  with _relay(listen, port) as running:
    client = _stream(running.address)
    polling.wait_until(
      lambda: running.stats().bytes_up == len(relay_link.PREFACE)
    )
    assert set(threading.enumerate()) - before
  assert not set(threading.enumerate()) - before
  with client:
    _wait_for_end(client)
  with pytest.raises((ConnectionRefusedError, FileNotFoundError)):
    _connect(running.address)
  assert not os.path.exists(listen.removeprefix("unix:"))
  running.close()  # A second call has no effect.


def test_an_error_of_the_thread_is_raised_in_the_owner(listen, monkeypatch):
  running = relay.Relay(listen, "127.0.0.1:1")
  running.start()
  running.check()
  monkeypatch.setattr(running._upstream, "connect", None)
  with _stream(running.address) as client:
    _wait_for_end(client)
  polling.wait_until(lambda: running.stats().connections_open == 0)
  with pytest.raises(RuntimeError, match=r"relay at .* failed"):
    running.close()
  with pytest.raises(RuntimeError, match=r"relay at .* failed"):
    running.check()


def test_a_unix_socket_is_private_to_this_user_and_replaced_if_stale(tmp_path):
  path = f"{tmp_path}/r"
  with socket.socket(socket.AF_UNIX) as left_behind:
    left_behind.bind(path)
  with _relay(f"unix:{path}", 1) as running:
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    with pytest.raises(ValueError, match="in use"):
      relay.Relay(f"unix:{path}", "h:1").start()
    assert os.path.exists(path)
    running.check()


def test_what_others_use_is_rejected_and_not_changed(tmp_path):
  path = tmp_path / "r"
  path.write_text("mine")
  with socket.create_server(("127.0.0.1", 0)) as other:
    used = f"127.0.0.1:{other.getsockname()[1]}"
    for address in (f"unix:{path}", used):
      with pytest.raises(ValueError, match=f"listen is '{address}'.*in use"):
        relay.Relay(address, "h:1").start()
  assert path.read_text() == "mine"


@pytest.mark.parametrize(
  ("listen", "upstream", "message"),
  [
    ("unix:" + "p" * 108, "h:1", "path has 108 bytes"),
    ("unix:", "h:1", "path has 0 bytes"),
    ("7000", "h:1", "listen is '7000'"),
    ("h:x", "h:1", "listen is 'h:x'"),
    ("h:1", "h:70000", "upstream is 'h:70000'"),
    ("h:1", "unix:", "upstream is 'unix:'"),
  ],
)
def test_an_invalid_address_is_rejected(listen, upstream, message):
  with pytest.raises(ValueError, match=message):
    relay.Relay(listen, upstream)
