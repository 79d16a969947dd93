"""Tests of two relays with TLS between them, and of unauthenticated peers.

The bytes of a test's client pass through the near relay, a TLS connection and
the far relay to the upstream. Unauthenticated peers connect to the far relay.
"""

import contextlib
import os
import random
import socket
import threading
from collections.abc import Iterator

import portpicker
import pytest

from slipway.replay.transport import (
  certificates,
  relay,
  relay_link,
  relay_tls,
  relay_tls_listener,
)
from tests import polling
from tests.replay.transport import peers, runs

_DEADLINE_S = 30
_PREFACE = relay_link.PREFACE


@pytest.fixture
def machine(tmp_path) -> certificates.Identity:
  return runs.identity(tmp_path)


@pytest.fixture(params=["tls", "insecure"])
def either(request, machine) -> certificates.Identity | None:
  """Identity of a machine; None: plaintext, which needs no certificate."""
  return machine if request.param == "tls" else None


@contextlib.contextmanager
def _running(*args, **kwargs) -> Iterator[relay.Relay]:
  made = relay.Relay(*args, **kwargs)
  made.start()
  try:
    yield made
  finally:
    made.close()


def _far(machine: certificates.Identity | None, port: int, **kwargs):
  tls = machine.server_context() if machine else relay_tls.INSECURE
  upstream = f"{peers.HOST}:{port}"
  return _running("127.0.0.1:0", upstream, listen_tls=tls, **kwargs)


def _near(
  machine: certificates.Identity | None, listen: str, far, admission=None
):
  upstream = far.address if isinstance(far, relay.Relay) else far
  tls = machine.client_context() if machine else relay_tls.INSECURE
  return _running(listen, upstream, admission, upstream_tls=tls)


def _client(running: relay.Relay) -> socket.socket:
  connection = peers.connect(running.address, _DEADLINE_S)
  connection.sendall(_PREFACE)
  return connection


@contextlib.contextmanager
def _linked(machine, listen, admission=None):
  """Yields both relays, a client, and the upstream's end of its link."""
  with (
    peers.Upstream() as upstream,
    _far(machine, upstream.port) as far,
    _near(machine, listen, far, admission) as near,
    _client(near) as client,
    upstream.accept() as peer,
  ):
    yield far, near, client, peer


def _is_idle(*relays: relay.Relay) -> bool:
  return not any(each.stats().connections_open for each in relays)


def test_bytes_pass_and_an_end_follows_the_last_byte(machine, listen):
  data = os.urandom(3_000_000)
  with (
    peers.Upstream() as upstream,
    _far(machine, upstream.port) as far,
    _near(machine, listen, far) as near,
  ):
    for client_ends in (True, False):
      client = _client(near)
      ends = [client, upstream.accept()]
      with ends[0], ends[1]:
        for sender, receiver in (ends, ends[::-1]):
          sending = threading.Thread(target=sender.sendall, args=(data,))
          sending.start()
          assert peers.receive(receiver, len(data)) == data
          sending.join()
        sender, receiver = ends if client_ends else ends[::-1]
        sender.sendall(data[:100_000])
        sender.shutdown(socket.SHUT_WR)
        assert peers.receive(receiver, len(data)) == data[:100_000]
        peers.wait_for_end(sender)  # both directions end together
    polling.wait_until(lambda: _is_idle(near, far))
    sums = (2 * (len(data) + len(_PREFACE)) + 100_000, 2 * len(data) + 100_000)
    for each in (near, far):
      stats = each.stats()
      assert (stats.bytes_up, stats.bytes_down) == sums
      assert (stats.connections_refused, stats.connections_failed) == (0, 0)
      assert stats.bytes_buffered == 0


@pytest.mark.parametrize("sender_is_client", [True, False])
def test_a_peer_that_does_not_read_blocks_the_sender(
  machine, listen, sender_is_client
):
  with _linked(machine, listen) as (far, near, client, peer):
    sender, receiver = (client, peer) if sender_is_client else (peer, client)
    sender.settimeout(0.5)
    sent, data = 0, os.urandom(100_000)
    with pytest.raises(TimeoutError):
      while sent < 100_000_000:
        sent += sender.send(data)
    for each in (near, far):
      assert 0 < each.stats().bytes_buffered <= 1_500_000
    sender.settimeout(_DEADLINE_S)
    sending = threading.Thread(target=sender.sendall, args=(b"end",))
    sending.start()
    got = peers.receive(receiver, sent + 3)
    sending.join()
    assert (len(got), got[-3:]) == (sent + 3, b"end")


@pytest.mark.parametrize(
  "end",
  [
    socket.socket.close,
    peers.reset,
    lambda peer: peer.shutdown(socket.SHUT_WR),
  ],
  ids=["close", "reset", "shutdown"],
)
def test_a_broken_link_is_reported_before_its_client_sees_it(
  machine, listen, end
):
  admission = peers.RecordingAdmission()
  with _linked(machine, listen, admission) as (_, near, client, peer):
    admission.client = client
    end(peer)
    peers.wait_for_end(client)
    assert [seen for _, seen in admission.broken] == [False]
    polling.wait_until(lambda: near.stats().connections_open == 0)
    assert len(admission.broken) == 1
    assert admission.reachable == [True]


def test_a_far_relay_that_closes_breaks_its_links(either, listen):
  admission = peers.RecordingAdmission()
  with _linked(either, listen, admission) as (far, _, client, _):
    admission.client = client
    far.close()
    peers.wait_for_end(client)
    assert [seen for _, seen in admission.broken] == [False]
    polling.wait_until(lambda: admission.reachable == [True, False])


@pytest.mark.parametrize("end", [socket.socket.close, peers.reset])
def test_a_client_that_ends_first_is_not_reported(either, listen, end):
  admission = peers.RecordingAdmission()
  with _linked(either, listen, admission) as (far, near, client, peer):
    end(client)
    peers.wait_for_end(peer)
    peer.close()
    polling.wait_until(lambda: _is_idle(near, far))
    assert admission.broken == []


def test_a_down_upstream_behind_a_live_relay_is_detected(either, listen):
  admission = peers.RecordingAdmission()
  port = portpicker.pick_unused_port()
  with _far(either, port) as far, _near(either, listen, far, admission) as near:
    polling.wait_until(lambda: admission.reachable == [False])
    with _client(near) as client:
      peers.wait_for_end(client)
    with peers.Upstream(port) as upstream:
      polling.wait_until(lambda: admission.reachable == [False, True])
      with _client(near) as client, upstream.accept() as peer:
        upstream.close()
        peer.close()
        peers.wait_for_end(client)
    polling.wait_until(lambda: admission.reachable == [False, True, False])
    # Only the established link counts as broken, no failed attempt does.
    assert len(admission.broken) == 1
    # Probes of the upstream do not count as rejected peers.
    assert far.stats().connections_refused == 0
    assert far.stats().connections_failed > 0


def test_an_upstream_may_move(either, listen):
  far_address: list[str | None] = [None]
  admission = peers.RecordingAdmission()
  with contextlib.ExitStack() as stack:
    near = stack.enter_context(
      _near(either, listen, lambda: far_address[0], admission)
    )
    polling.wait_until(lambda: admission.reachable == [False])
    with _client(near) as client:
      peers.wait_for_end(client)
    for moves in range(1, 3):
      with peers.Upstream() as upstream, _far(either, upstream.port) as far:
        far_address[0] = far.address
        polling.wait_until(
          lambda n=moves: admission.reachable == [False, True] * n
        )
        with _client(near) as client, upstream.accept():
          far.close()
          peers.wait_for_end(client)
      polling.wait_until(
        lambda n=moves: admission.reachable[2 * n :] == [False]
      )


def test_links_to_the_old_address_of_an_upstream_are_closed(either, listen):
  # Like a machine that has lost power: its connections stay open, and the
  # upstream is on another machine now.
  admission = peers.RecordingAdmission()
  with (
    peers.Upstream() as before,
    peers.Upstream() as after,
    _far(either, before.port) as far_before,
    _far(either, after.port) as far_after,
  ):
    far_address = [far_before.address]
    with _near(either, listen, lambda: far_address[0], admission) as near:
      polling.wait_until(lambda: admission.reachable == [True])
      with _client(near) as client, before.accept():
        assert admission.broken == []
        far_address[0] = far_after.address
        peers.wait_for_end(client)
      assert len(admission.broken) == 1
      with _client(near), after.accept():
        pass


def test_an_upstream_may_be_a_unix_socket(machine, tmp_path):
  with (
    peers.Upstream() as upstream,
    _running(f"unix:{tmp_path}/b", upstream.address) as last,
    _running(
      "127.0.0.1:0", last.address, listen_tls=machine.server_context()
    ) as far,
    _near(machine, f"unix:{tmp_path}/r", far) as near,
    _client(near) as client,
    upstream.accept() as peer,
  ):
    peer.sendall(b"x")
    assert client.recv(1) == b"x"


# The functions below return functions that connect an unauthenticated peer to
# an address, and return its open socket.


def _send(data: bytes):
  def connect(address, folder):
    del folder
    connection = peers.connect(address, _DEADLINE_S)
    with contextlib.suppress(ConnectionError):
      connection.sendall(data)
    return connection

  return connect


def _shake_hands(make_context):
  def connect(address, folder):
    context = make_context(folder)
    connection = context.wrap_socket(
      peers.connect(address, _DEADLINE_S),
      server_hostname="127.0.0.1",
      do_handshake_on_connect=False,
    )
    # With TLS 1.3, the handshake of a client ends before the server rejects it.
    with contextlib.suppress(OSError):
      connection.do_handshake()
      connection.sendall(_PREFACE)
    return connection

  return connect


def _other_cluster_context(folder):
  made = runs.identity(folder, cluster="other")
  other = made.client_context()
  other.check_hostname = False
  other.verify_mode = runs.anonymous_client_context().verify_mode
  return other


def _old_tls_context(folder):
  del folder
  context = runs.anonymous_client_context()
  context.maximum_version = context.maximum_version.TLSv1_2
  return context


_UNAUTHENTICATED = {
  "silent": _send(b""),
  "http2": _send(_PREFACE),
  "noise": _send(bytes(range(256)) * 100),
  "partial client hello": _send(
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"
  ),
  "no certificate": _shake_hands(
    lambda folder: runs.anonymous_client_context()
  ),
  "other cluster": _shake_hands(_other_cluster_context),
  "old tls": _shake_hands(_old_tls_context),
}


def _wait_for_end(connection: socket.socket) -> bytes:
  got = b""
  with contextlib.suppress(OSError):
    while data := connection.recv(65_536):
      got += data
  return got


@pytest.mark.parametrize("name", _UNAUTHENTICATED)
def test_an_unauthenticated_peer_gets_no_data_and_is_counted(
  machine, tmp_path, name, caplog, capfd
):
  with (
    peers.Upstream() as upstream,
    _far(machine, upstream.port, preface_timeout_s=0.3) as far,
  ):
    with peers.connect(far.address):
      pass  # the event loop opens its last descriptors for the first peer
    polling.wait_until(lambda: far.stats().connections_refused == 1)
    ends = far.address, upstream.port
    before = peers.count_sockets(*ends)
    for count in range(2, 5):
      peer_socket = _UNAUTHENTICATED[name](far.address, tmp_path / str(count))
      if count == 2:
        got = _wait_for_end(peer_socket)
        # At most a TLS alert, which a TLS client does not return as data.
        assert len(got) <= 7
      else:
        (socket.socket.close if count == 3 else peers.reset)(peer_socket)
      peer_socket.close()
      polling.wait_until(lambda n=count: far.stats().connections_refused == n)
      stats = far.stats()
      assert (stats.connections_total, stats.connections_open) == (count, 0)
    assert upstream.has_no_connection(for_s=0.05)
    assert (stats.bytes_up, stats.connections_failed) == (0, 0)
    polling.wait_until(lambda: peers.count_sockets(*ends) <= before)
    far.check()
  assert caplog.records == []
  assert capfd.readouterr() == ("", "")


def test_many_silent_peers_do_not_exclude_a_machine(
  machine, listen, monkeypatch
):
  monkeypatch.setattr(relay_tls_listener, "_HANDSHAKE_LIMIT", 10)
  with (
    peers.Upstream() as upstream,
    _far(machine, upstream.port, preface_timeout_s=_DEADLINE_S) as far,
    _near(machine, listen, far) as near,
    contextlib.ExitStack() as stack,
  ):
    for _ in range(30):
      stack.enter_context(peers.connect(far.address))
    polling.wait_until(lambda: far.stats().connections_refused == 20)
    with _client(near), upstream.accept():
      assert far.stats().connections_refused == 21
      assert far.stats().connections_open == 10
    far.close()
    # Connections that `close` ends do not count as rejected.
    assert far.stats().connections_refused == 21
    assert far.stats().connections_open == 0


def test_close_while_peers_and_machines_connect(either, listen):
  with peers.Upstream() as upstream, contextlib.ExitStack() as stack:
    for _ in range(10):
      with (
        _far(either, upstream.port) as far,
        _near(either, listen, far) as near,
      ):
        for _ in range(5):
          stack.enter_context(peers.connect(far.address))
          stack.enter_context(_client(near))
        far.close()
        near.close()
        assert _is_idle(near, far)


def test_without_certificates_garbage_is_forwarded_and_does_no_harm():
  rng = random.Random(1)
  with peers.Upstream() as upstream, _far(None, upstream.port) as far:
    for size in [0, 1, 100_000] * 20:
      with peers.connect(far.address) as peer_socket:
        with contextlib.suppress(ConnectionError):
          peer_socket.sendall(rng.randbytes(size))
        if rng.random() < 0.5:
          peer_socket.shutdown(socket.SHUT_WR)
    polling.wait_until(lambda: far.stats().connections_total == 60)
    upstream.close()
    polling.wait_until(lambda: _is_idle(far))
    far.check()


def test_garbage_disturbs_no_client_and_leaves_no_connection(
  machine, listen, tmp_path
):
  rng = random.Random(1)
  with (
    peers.Upstream() as upstream,
    _far(machine, upstream.port, preface_timeout_s=0.5) as far,
    _near(machine, listen, far) as near,
    _client(near) as client,
    upstream.accept() as peer,
    contextlib.ExitStack() as stack,
  ):
    ends = far.address, near.address, upstream.port
    before, count = peers.count_sockets(*ends), 150
    for index in range(count):
      name = rng.choice([*_UNAUTHENTICATED, "record"])
      connect = _UNAUTHENTICATED.get(name) or _send(
        # A TLS handshake record with random content.
        b"\x16\x03\x01" + rng.randbytes(rng.randrange(2, 2_000))
      )
      peer_socket = connect(far.address, tmp_path / str(index))
      stack.callback(peer_socket.close)
      rng.choice([socket.socket.close, peers.reset, lambda stays: None])(
        peer_socket
      )
      client.sendall(b"%d;" % index)
      peer.sendall(b"%d;" % index)
    expected = b"".join(b"%d;" % index for index in range(count))
    assert peers.receive(client, len(expected)) == expected
    assert peers.receive(peer, len(expected)) == expected
    stack.close()
    polling.wait_until(lambda: far.stats().connections_refused == count)
    assert far.stats().connections_open == 1
    assert upstream.has_no_connection()
    polling.wait_until(lambda: peers.count_sockets(*ends) <= before)
    far.check()
    near.check()
