"""Tests of gateways between a real Reverb server and its clients."""

import contextlib
import threading

import numpy as np
import pytest
import reverb
import tensorflow as tf

from slipway.replay.transport import certificates, gateway, relay_link
from tests import polling
from tests.replay.transport import peers, runs

_DEADLINE_S = 60


@contextlib.contextmanager
def _pair(folder=None):
  """Yields the gateways of a server's machine and of a client's machine."""
  identities = [None, None]
  if folder is not None:
    identities = [runs.identity(folder, name) for name in ("home", "away")]
  with contextlib.ExitStack() as stack:
    made = [gateway.Gateway("127.0.0.1", each) for each in identities]
    for each in made:
      stack.callback(each.close)
    yield made


@pytest.fixture(params=["tls", "insecure"])
def gateways(request, tmp_path):
  with _pair(tmp_path if request.param == "tls" else None) as made:
    yield made


def _serve() -> reverb.Server:
  signature = tf.TensorSpec([None], tf.uint8)
  return reverb.Server([reverb.Table.queue("items", 100, signature=signature)])


def test_items_pass_in_both_directions(gateways, tmp_path):
  server_side, client_side = gateways
  server = _serve()
  there = server_side.offer(f"localhost:{server.port}")
  address = client_side.reach(f"{tmp_path}/r", lambda: there)
  assert address == f"unix:{tmp_path}/r"
  client = reverb.Client(address)
  records = np.random.default_rng(0).integers(0, 256, (60, 50_000), np.uint8)

  def write():
    with client.trajectory_writer(num_keep_alive_refs=1) as writer:
      for record in records:
        writer.append(record)
        writer.create_item("items", 1.0, writer.history[-1])
        writer.flush(10)
      writer.flush()

  writing = threading.Thread(target=write)
  writing.start()
  got = [
    np.ravel(sample.data[0])
    for sample in server.localhost_client().sample(
      "items", len(records), emit_timesteps=False
    )
  ]
  writing.join(_DEADLINE_S)
  np.testing.assert_array_equal(got, records)
  assert client.server_info(10)["items"].current_size == 0
  for each in gateways:
    stats = each.stats()
    assert stats.bytes_up > records.size
    assert stats.connections_open >= 1
    assert (stats.connections_refused, stats.connections_failed) == (0, 0)
    each.check()


def test_rejected_clients_are_summed_over_all_offers(tmp_path):
  with _pair(tmp_path) as (server_side, _), peers.Upstream() as upstream:
    for _ in range(2):
      there = server_side.offer(upstream.address)
      with peers.connect(there, _DEADLINE_S) as client:
        client.sendall(b"GET / HTTP/1.1\r\n\r\n")
        with contextlib.suppress(ConnectionError):
          while client.recv(100):
            pass
    polling.wait_until(lambda: server_side.stats().connections_refused == 2)
    assert server_side.stats().connections_total == 2
    assert upstream.has_no_connection()


def test_close_leaves_no_thread(gateways, tmp_path):
  server_side, client_side = gateways
  before = set(threading.enumerate())
  there = server_side.offer("localhost:1")
  client_side.reach(f"{tmp_path}/r", lambda: there)
  assert set(threading.enumerate()) - before
  server_side.close()
  client_side.close()
  assert set(threading.enumerate()) == before
  assert not (tmp_path / "r").exists()
  with pytest.raises(ConnectionRefusedError):
    peers.connect(there)


def test_after_an_error_of_one_thread_all_relays_are_closed(tmp_path):
  made = gateway.Gateway("127.0.0.1", None)
  there = made.offer("localhost:1")

  def fail():
    raise KeyError("no address")

  path = made.reach(f"{tmp_path}/r", fail)
  with peers.connect(path, _DEADLINE_S) as client:
    client.sendall(relay_link.PREFACE)
    peers.wait_for_end(client)
  with pytest.raises(RuntimeError, match="no address"):
    made.check()
  with pytest.raises(RuntimeError, match="no address"):
    made.close()
  with pytest.raises(ConnectionRefusedError):
    peers.connect(there)


def test_files_without_an_identity_are_rejected(tmp_path):
  identity = certificates.Identity(*(f"{tmp_path}/{x}.pem" for x in "abc"))
  with pytest.raises(ValueError, match=r"a\.pem"):
    gateway.Gateway("127.0.0.1", identity)
