"""Tests of admission: rejected clients, broken links, reachable upstreams."""

import asyncio
import contextlib
import functools
import os
import socket
import subprocess
import sys
import threading

import portpicker
import pytest

from slipway.replay.transport import relay, relay_link, relay_upstream
from tests import polling
from tests.replay.transport import peers

_DEADLINE_S = 30
_relay = peers.run_relay
_wait_for_end = peers.wait_for_end
_PREFACE = relay_link.PREFACE
_Admission = peers.RecordingAdmission
_Upstream = peers.Upstream
_receive = peers.receive
_reset = peers.reset


def _connect(address, data=b""):
  connection = peers.connect(address, _DEADLINE_S)
  if data:
    connection.sendall(data)
  return connection


def _pid(listen):
  return os.getpid() if listen.startswith("unix:") else 0


@contextlib.contextmanager
def _linked(listen, admission=None, **kwargs):
  """Yields a relay, a client, and the upstream's end of its link."""
  with (
    _Upstream() as upstream,
    _relay(listen, upstream.port, admission, **kwargs) as running,
    _connect(running.address, _PREFACE) as client,
    upstream.accept() as peer,
  ):
    yield running, client, peer


_WITHOUT_PREFACE = {
  "nothing": b"",
  "first byte": b"P",
  "other byte": b"G",
  "http1": b"PRI * HTTP/1",
  "last byte missing": _PREFACE[:-1],
  "last byte wrong": _PREFACE[:-1] + b"\r",
  "noise": os.urandom(1_000) + b"\0",
}


@pytest.mark.parametrize("name", _WITHOUT_PREFACE)
def test_clients_without_an_http2_preface_never_reach_the_upstream(
  listen, name
):
  with (
    _Upstream() as upstream,
    _relay(listen, upstream.port, preface_timeout_s=0.1) as running,
  ):
    for end in (_wait_for_end, lambda client: client.shutdown(socket.SHUT_WR)):
      with _connect(running.address) as client:
        with contextlib.suppress(ConnectionError, BrokenPipeError):
          client.sendall(_WITHOUT_PREFACE[name])
        with contextlib.suppress(OSError):  # the client may be closed already
          end(client)
        _wait_for_end(client)
    polling.wait_until(lambda: not running.stats().connections_open)
    assert running.stats().connections_refused == 2
    assert running.stats().connections_total == 2
    assert running.stats().bytes_buffered == 0
    running.check()
    assert upstream.has_no_connection()


def test_a_wrong_preface_is_rejected_at_its_first_wrong_byte(listen):
  with (
    _Upstream() as upstream,
    _relay(listen, upstream.port, preface_timeout_s=1e6) as running,
    _connect(running.address, _PREFACE[:7]) as client,
  ):
    polling.wait_until(lambda: running.stats().bytes_up == 7)
    assert running.stats().bytes_buffered == 7
    client.sendall(b"?")
    _wait_for_end(client)


def test_a_preface_may_arrive_in_pieces(listen):
  with (
    _Upstream() as upstream,
    _relay(listen, upstream.port) as running,
    _connect(running.address) as client,
  ):
    for sent in range(len(_PREFACE)):
      assert upstream.has_no_connection()
      client.sendall(_PREFACE[sent : sent + 1])
      polling.wait_until(lambda sent=sent: running.stats().bytes_up == sent + 1)
    client.sendall(b"and what follows")
    client.shutdown(socket.SHUT_WR)
    with upstream.accept() as peer, peer.makefile("rb") as stream:
      assert stream.read() == b"and what follows"
    assert running.stats().connections_refused == 0


def test_clients_are_admitted_by_process(listen):
  admission = _Admission(admits=False)
  with (
    _Upstream() as upstream,
    _relay(listen, upstream.port, admission) as running,
  ):
    polling.wait_until(lambda: admission.reachable)
    with contextlib.suppress(ConnectionError):
      _wait_for_end(_connect(running.address, _PREFACE))
    polling.wait_until(lambda: running.stats().connections_refused == 1)
    assert running.stats().clients == {}
    admission.admits = True
    with _connect(running.address, _PREFACE), upstream.accept():
      assert admission.admit_pids == [_pid(listen)] * 2
      assert running.stats().clients[_pid(listen)].streams == 1
    assert running.stats().connections_refused == 1


@pytest.mark.parametrize(
  "end",
  [socket.socket.close, _reset, lambda peer: peer.shutdown(socket.SHUT_WR)],
  ids=["close", "reset", "shutdown"],
)
def test_a_broken_link_is_reported_before_its_client_sees_it(listen, end):
  admission = _Admission()
  with _linked(listen, admission) as (running, client, peer):
    admission.client = client
    end(peer)
    _wait_for_end(client)
    assert admission.broken == [(_pid(listen), False)]
    client.close()
    peer.close()
    polling.wait_until(lambda: not running.stats().connections_open)
    assert len(admission.broken) == 1
  assert admission.reachable == [True]  # The upstream still listens.


@pytest.mark.parametrize("upstream_ends", [socket.socket.close, _reset])
@pytest.mark.parametrize(
  "client_ends",
  [socket.socket.close, _reset, lambda client: client.shutdown(1)],
  ids=["close", "reset", "shutdown"],
)
def test_a_client_that_ends_first_is_not_reported(
  listen, client_ends, upstream_ends
):
  admission = _Admission()
  with _linked(listen, admission) as (running, client, peer):
    client_ends(client)
    _wait_for_end(peer)
    upstream_ends(peer)
    polling.wait_until(lambda: not running.stats().connections_open)
    assert admission.broken == []


def test_a_client_whose_end_is_not_yet_read_is_not_reported(listen):
  admission = _Admission()
  with _linked(listen, admission) as (running, client, peer):
    client.settimeout(0.3)
    with contextlib.suppress(TimeoutError):
      while True:  # until the relay stops reading
        client.send(bytes(100_000))
    # An orderly end by TCP would wait at the client behind the unsent data.
    _reset(client)
    _reset(peer)
    polling.wait_until(lambda: not running.stats().connections_open)
    assert admission.broken == []


def test_the_link_of_a_client_that_ended_and_then_closed_is_closed(listen):
  with _linked(listen) as (running, client, peer):
    client.shutdown(socket.SHUT_WR)
    assert peer.recv(1) == b""
    # The upstream may still reply.
    assert running.stats().connections_open == 1
    if listen.startswith("unix:"):
      client.close()
    else:
      # By TCP, a client that closes looks like one that has only ended its
      # sending. It replies to the next data with a reset.
      peer.sendall(b"x")
      assert client.recv(1) == b"x"
      client.close()
      peer.sendall(b"x")
    polling.wait_until(lambda: not running.stats().connections_open)


def test_neither_close_nor_an_unreachable_upstream_breaks_a_link(listen):
  admission = _Admission()
  port = portpicker.pick_unused_port()
  with _relay(listen, port, admission) as running:
    with _connect(running.address, _PREFACE) as client:
      _wait_for_end(client)
    polling.wait_until(lambda: running.stats().connections_failed == 1)
    assert admission.reachable == [False]
    with _Upstream(port) as upstream:
      polling.wait_until(lambda: admission.reachable == [False, True])
      with _connect(running.address, _PREFACE) as client, upstream.accept():
        running.close()
        _wait_for_end(client)
  assert admission.broken == []
  assert admission.reachable == [False, True]


def test_the_upstream_is_probed_only_while_it_is_down(listen):
  admission = _Admission()
  port = portpicker.pick_unused_port()
  with _relay(listen, port, admission) as running:
    for restart in range(3):
      polling.wait_until(
        lambda n=restart: admission.reachable == [False, True] * n + [False]
      )
      with _Upstream(port) as upstream:
        polling.wait_until(
          lambda n=restart: admission.reachable[2 * n :] == [False, True]
        )
        with (
          _connect(running.address, _PREFACE) as client,
          upstream.accept() as peer,
        ):
          assert upstream.probes == 1
          assert upstream.has_no_connection(for_s=0.3)
          upstream.close()
          peer.close()
          _wait_for_end(client)
    assert admission.broken == [(_pid(listen), False)] * 3
    running.check()


@pytest.mark.parametrize("reported", [False, True])
def test_close_while_the_upstream_is_probed(listen, reported):
  with _Upstream() as upstream:
    for port in (portpicker.pick_unused_port(), upstream.port) * 20:
      admission = _Admission()
      with _relay(listen, port, admission):
        polling.wait_until(
          lambda admission=admission: admission.reachable or not reported
        )
      # `close` raises an error if the thread does not end.
      assert admission.broken == []


def test_the_end_of_an_upstream_that_listens_a_little_longer_is_detected(
  listen,
):
  # A killed process may close its connections before its listening socket.
  admission = _Admission()
  with (
    _Upstream() as upstream,
    _relay(listen, upstream.port, admission) as running,
  ):
    with _connect(running.address, _PREFACE), upstream.accept() as peer:
      peer.close()
      upstream.wait_for_probe()
      upstream.close()
      polling.wait_until(lambda: admission.reachable == [True, False])
    assert running.stats().connections_failed == 0


def test_an_upstream_that_resets_at_once_does_no_harm(listen):
  admission = _Admission()
  listening = socket.create_server((peers.HOST, 0), backlog=100)
  port = listening.getsockname()[1]

  def reset_all():
    with contextlib.suppress(OSError):
      while True:
        _reset(listening.accept()[0])

  thread = threading.Thread(target=reset_all)
  thread.start()
  clients = 100
  with _relay(listen, port, admission) as running:
    for _ in range(clients):
      with _connect(running.address, _PREFACE) as client:
        _wait_for_end(client)
    polling.wait_until(lambda: not running.stats().connections_open)
    stats = running.stats()
    # A reset during the connect counts as a failed connection.
    assert len(admission.broken) + stats.connections_failed == clients
    assert stats.connections_refused == 0
    listening.shutdown(socket.SHUT_RDWR)
    thread.join(_DEADLINE_S)
    listening.close()
    with (
      _Upstream(port) as upstream,
      _connect(running.address, _PREFACE),
      upstream.accept(),
    ):
      assert admission.reachable[-1]
    running.check()


def test_a_connection_to_itself_is_no_upstream(monkeypatch):
  # The kernel may choose, as source port, the same port on which no process
  # listens.
  port = portpicker.pick_unused_port()
  address = (peers.HOST, port)
  reported = []

  async def connect():
    loop = asyncio.get_running_loop()
    monkeypatch.setattr(
      loop,
      "create_connection",
      functools.partial(loop.create_connection, local_addr=address),
    )
    upstream = relay_upstream.Upstream(
      lambda: f"{peers.HOST}:{port}", reported.append
    )
    assert not await upstream.connect(asyncio.Protocol())
    await upstream.close()

  asyncio.run(connect())
  assert reported == [False]
  socket.create_server(address).close()  # The port is free again.


_CLIENT = """
import socket, sys
kind, address, size = sys.argv[1], sys.argv[2], int(sys.argv[3])
if kind == "unix":
  client = socket.socket(socket.AF_UNIX)
  client.connect(address)
else:
  host, port = address.split(":")
  client = socket.create_connection((host, int(port)))
client.sendall(b"PRI * HTTP/2.0\\r\\n\\r\\nSM\\r\\n\\r\\n" + bytes(size))
client.recv(1)
"""


def test_bytes_are_counted_by_process(listen):
  with _Upstream() as upstream, _relay(listen, upstream.port) as running:
    kind = "unix" if listen.startswith("unix:") else "tcp"
    processes, peers, sizes = [], [], (1_000, 3_000_000)
    for size in sizes:
      path = running.address.removeprefix("unix:")
      arguments = [sys.executable, "-c", _CLIENT, kind, path, str(size)]
      processes.append(subprocess.Popen(arguments))
      peers.append(upstream.accept())
      assert _receive(peers[-1], size) == bytes(size)
    moved = [(len(_PREFACE) + size, 0) for size in sizes]
    if kind == "tcp":
      pids, moved = [0], [tuple(map(sum, zip(*moved, strict=True)))]
    else:
      pids = [process.pid for process in processes]
    streams = len(sizes) // len(pids)
    expected = {
      pid: (streams, *counts) for pid, counts in zip(pids, moved, strict=True)
    }
    assert running.stats().clients == expected
    for peer, process in zip(peers, processes, strict=True):
      peer.sendall(b"x")
      process.wait(_DEADLINE_S)
      peer.close()
    polling.wait_until(lambda: not running.stats().connections_open)
    stats = running.stats()
    assert stats.clients == {
      pid: (0, up, streams) for pid, (_, up, _) in expected.items()
    }
    assert stats.bytes_up == sum(c.bytes_up for c in stats.clients.values())
    assert stats.bytes_down == len(sizes)


@pytest.mark.parametrize("name", ["admit", "on_broken", "on_reachable"])
def test_an_error_of_the_admission_is_raised_in_the_owner(listen, name):
  def fail(argument):
    raise KeyError(f"no {name}")

  admission = _Admission()
  setattr(admission, name, fail)
  with _Upstream() as upstream:
    running = relay.Relay(listen, upstream.address, admission)
    running.start()
    with _connect(running.address) as client:
      with contextlib.suppress(ConnectionError):
        client.sendall(_PREFACE)
      if name != "admit":
        upstream.accept().close()
      _wait_for_end(client)
    polling.wait_until(lambda: not running.stats().connections_open)
    with pytest.raises(RuntimeError, match=f"no {name}"):
      running.check()
    with pytest.raises(RuntimeError, match=f"no {name}"):
      running.close()
