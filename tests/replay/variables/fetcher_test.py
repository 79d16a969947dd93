"""Tests of the fetcher of variables, through a proxy to a real server."""

import os
import time

import numpy as np
import portpicker
import pytest
import reverb

from slipway.replay import proxy
from slipway.replay.variables import shared_variables, variables
from tests import polling
from tests.replay import served


def _serve(port: int, first_version: int):
  server = reverb.Server([variables.make_table()], port=port)
  address = f"localhost:{port}"
  return server, variables.VariablesPublisher(address, first_version)


@pytest.fixture
def port():
  return portpicker.pick_unused_port()


@pytest.fixture
def worker_proxy(port, tmp_path):
  started = proxy.WorkerProxy(
    f"localhost:{port}", f"unix:{tmp_path}/relay", f"{tmp_path}/control_block"
  )
  started.start()
  yield started
  started.close()


def test_versions_reach_shared_memory_also_after_a_server_restart(
  port, worker_proxy, tmp_path
):
  fetching = served.make_fetcher(worker_proxy, tmp_path)
  shared = shared_variables.SharedVariables(f"{tmp_path}/variables")
  polling.wait_until(lambda: fetching.poll() and fetching.waiting_since_s)
  assert shared.poll() is None
  server, publisher = _serve(port, first_version=1)
  for version in (1, 2):
    w = np.full((3, 4), version, np.float32)
    assert publisher.publish({"w": w}) == version
    snapshot = polling.wait_until(lambda: fetching.poll() and shared.poll())
    assert snapshot.version == version
    np.testing.assert_array_equal(snapshot.variables["w"], w)
  assert (fetching.version, fetching.fetched) == (2, 2)
  assert fetching.published_at_s == snapshot.published_at_s
  assert fetching.waiting_since_s is None

  publisher.close()
  stopping_s = time.time()
  server.stop()
  del server
  polling.wait_until(lambda: fetching.poll() and fetching.waiting_since_s)
  assert fetching.waiting_since_s >= stopping_s
  assert shared.poll() is None  # Workers keep the last version.
  restarted, publisher = _serve(port, first_version=10)
  publisher.publish({"w": np.zeros(2)})
  newest = polling.wait_until(lambda: fetching.poll() and shared.poll())
  assert newest.version == 10
  publisher.close()
  fetching.close()
  assert "variables" not in os.listdir(tmp_path)
  restarted.stop()


def test_a_server_without_variables_is_an_error(port, worker_proxy, tmp_path):
  server = reverb.Server([reverb.Table.queue("other", 1)], port)
  broken = served.make_fetcher(worker_proxy, tmp_path)
  polling.wait_until(lambda: not worker_proxy.get_unreachable())
  with pytest.raises(ValueError, match="no 'variables'"):
    while not broken.waiting_since_s:
      broken.poll()
  server.stop()
