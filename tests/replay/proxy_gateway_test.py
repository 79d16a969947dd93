"""Tests of a proxy whose server is on another machine, behind its gateway."""

import numpy as np
import portpicker
import pytest
import reverb
import tensorflow as tf

from slipway.replay import proxy
from slipway.replay.items import writer as writer_lib
from slipway.replay.transport import control_block, gateway, relay_tls, routes
from slipway.replay.variables import shared_variables, variables
from tests import polling
from tests.replay import served
from tests.replay.transport import runs

_DEADLINE_S = 60


class _ServerMachine:
  """Machine that runs the server and its gateway."""

  def __init__(self, identity):
    self.gateway = gateway.Gateway("127.0.0.1", identity)
    self.port = portpicker.pick_unused_port()
    self.address = self.gateway.offer(f"localhost:{self.port}")
    self.server = None

  def serve(self, first_version: int) -> None:
    records = tf.TensorSpec([4], tf.uint8)
    tables = [
      variables.make_table(),
      reverb.Table.queue("t", 99, signature=records),
    ]
    self.server = reverb.Server(tables, port=self.port)
    address = f"localhost:{self.port}"
    publisher = variables.VariablesPublisher(address, first_version)
    publisher.publish({"w": np.full(3, first_version, np.float32)})
    publisher.close()

  def close(self) -> None:
    if self.server is not None:
      self.server.stop()
      self.server = None
    self.gateway.close()


@pytest.fixture(params=["tls", "insecure"])
def identity(request, tmp_path):
  if request.param == "insecure":
    return None
  return runs.identity(tmp_path)


def _write(writer, value: int) -> None:
  assert writer.wait(_DEADLINE_S)
  writer.write(np.full((1, 4), value, np.uint8), np.ones(1))
  assert writer.flush(_DEADLINE_S)


def test_items_and_variables_still_arrive_after_the_server_moves(
  identity, tmp_path
):
  server_address: list[str | None] = [None]
  worker_proxy = proxy.WorkerProxy(
    lambda: server_address[0],
    f"unix:{tmp_path}/relay",
    f"{tmp_path}/control_block",
    tls=identity and identity.client_context(),
  )
  worker_proxy.start()
  fetching = served.make_fetcher(worker_proxy, tmp_path)
  handle = control_block.WorkerHandle(f"{tmp_path}/control_block", 0)
  writer = writer_lib.ItemWriter(
    routes.ProxyRoute(worker_proxy.address, handle), "t"
  )
  shared = shared_variables.SharedVariables(f"{tmp_path}/variables")
  polling.wait_until(lambda: fetching.poll() and fetching.waiting_since_s)
  for version in (1, 2):
    machine = _ServerMachine(identity)
    server_address[0] = machine.address
    # The gateway is up, but its server is not: no stream opens.
    polling.wait_until(
      lambda machine=machine: machine.gateway.stats().connections_failed > 2
    )
    assert not writer.wait(0.05)
    assert "the replay server, which its proxy cannot reach" in writer.waits_for
    machine.serve(first_version=version)
    _write(writer, version)
    snapshot = polling.wait_until(lambda: fetching.poll() and shared.poll())
    assert snapshot.version == version
    np.testing.assert_array_equal(snapshot.variables["w"], np.full(3, version))
    assert machine.gateway.stats().connections_refused == 0
    machine.close()
    del machine
    polling.wait_until(lambda: fetching.poll() and fetching.waiting_since_s)
  assert (writer.confirmed, writer.lost) == (2, 0)
  fetching.close()
  worker_proxy.close()


def test_a_proxy_without_a_certificate_is_rejected(tmp_path):
  machine = _ServerMachine(runs.identity(tmp_path))
  machine.serve(first_version=1)
  contexts: dict[str, relay_tls.Tls] = {
    "none": runs.anonymous_client_context(),
    "plain": relay_tls.INSECURE,
  }
  for name, tls in contexts.items():
    folder = tmp_path / name
    folder.mkdir()
    worker_proxy = proxy.WorkerProxy(
      machine.address,
      f"unix:{folder}/relay",
      f"{folder}/control_block",
      tls=tls,
    )
    before = machine.gateway.stats().connections_refused
    worker_proxy.start()
    fetching = served.make_fetcher(worker_proxy, folder)
    polling.wait_until(
      lambda n=before: machine.gateway.stats().connections_refused > n
    )
    fetching.poll()
    assert not fetching.version
    assert worker_proxy.stats().relay.bytes_down == 0
    fetching.close()
    worker_proxy.close()
  assert machine.gateway.stats().bytes_up == 0
  machine.close()
