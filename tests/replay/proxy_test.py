"""Tests of the proxy from publisher to shared memory, and of restarts."""

import os
import threading
import time

import numpy as np
import portpicker
import pytest
import reverb

from replay import proxy, shared_variables, variables

_DEADLINE_S = 60


def _until(condition):
  """Waits for what other threads do; fails after a generous deadline."""
  end_s = time.monotonic() + _DEADLINE_S
  while not (value := condition()):
    assert time.monotonic() < end_s, "deadline"
    time.sleep(0.005)
  return value


def _serve(port: int, first_version: int):
  server = reverb.Server([variables.make_table()], port=port)
  address = f"localhost:{port}"
  return server, variables.VariablesPublisher(address, first_version)


@pytest.fixture
def running(tmp_path):
  port = portpicker.pick_unused_port()
  started = proxy.WorkerProxy(
    f"localhost:{port}", f"unix:{tmp_path}/relay", f"{tmp_path}/variables", 0.01
  )
  started.start()
  yield port, started, shared_variables.SharedVariables(f"{tmp_path}/variables")
  started.close()


def test_versions_reach_shared_memory_also_from_a_restarted_server(running):
  port, worker_proxy, shared = running
  _until(lambda: worker_proxy.stats().waiting_since_s)
  assert shared.poll() is None
  server, publisher = _serve(port, first_version=1)
  for version in (1, 2):
    w = np.full((3, 4), version, np.float32)
    assert publisher.publish({"w": w}) == version
    snapshot = _until(shared.poll)
    assert snapshot.version == version
    np.testing.assert_array_equal(snapshot.variables["w"], w)
  _until(lambda: worker_proxy.stats().waiting_since_s is None)
  assert worker_proxy.stats().version == 2
  assert worker_proxy.stats().versions_fetched == 2
  # Workers reach the same server through the relay.
  client = reverb.Client(worker_proxy.address)
  assert client.server_info(10)[variables.TABLE].current_size == 1
  assert worker_proxy.stats().relay.connections_total >= 1

  publisher.close()
  stopping_s = time.time()
  server.stop()
  del server
  _until(lambda: worker_proxy.stats().waiting_since_s)
  assert worker_proxy.stats().waiting_since_s >= stopping_s
  assert shared.poll() is None  # Workers keep what they have.
  restarted, publisher = _serve(port, first_version=10)
  publisher.publish({"w": np.zeros(2)})
  assert _until(shared.poll).version == 10
  worker_proxy.check()
  publisher.close()
  restarted.stop()


def test_close_leaves_no_thread_and_no_file(running, tmp_path):
  port, worker_proxy, shared = running
  server, publisher = _serve(port, 1)
  publisher.publish({})
  _until(shared.poll)
  worker_proxy.close()
  names = {thread.name for thread in threading.enumerate()}
  assert not names & {"relay", "variables-proxy"}
  assert os.listdir(tmp_path) == []
  publisher.close()
  del server


def test_an_error_of_the_thread_reaches_the_owner(tmp_path):
  server = reverb.Server([reverb.Table.queue("other", 1)])
  broken = proxy.WorkerProxy(
    f"localhost:{server.port}", f"unix:{tmp_path}/r", f"{tmp_path}/v"
  )
  broken.start()
  _until(lambda: "variables-proxy" not in map(_name, threading.enumerate()))
  with pytest.raises(RuntimeError, match="no 'variables'"):
    broken.check()
  with pytest.raises(RuntimeError, match="no 'variables'"):
    broken.close()
  assert os.listdir(tmp_path) == []


def _name(thread: threading.Thread) -> str:
  return thread.name


def test_a_period_of_zero_is_refused(tmp_path):
  with pytest.raises(ValueError, match="poll_period_s is 0"):
    proxy.WorkerProxy("h:1", f"unix:{tmp_path}/r", f"{tmp_path}/v", 0)
