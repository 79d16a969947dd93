"""Tests of RetryingPublisher with a server that stops and restarts."""

import time

import numpy as np
import portpicker
import pytest
import reverb

from slipway.replay.tables import shard_monitor
from slipway.replay.variables import retrying_publisher, variables
from tests import polling

ARRAYS = {"w": np.arange(4.0)}
DEADLINE_S = 60.0


@pytest.fixture
def port():
  return portpicker.pick_unused_port()


@pytest.fixture
def monitor(port):
  monitor = shard_monitor.ShardMonitor(0, f"localhost:{port}", variables.TABLE)
  yield monitor
  monitor.close()


def serve(port):
  return reverb.Server([variables.make_table()], port=port)


def newest(port):
  return variables.VariablesClient(f"localhost:{port}").poll(20_000).version


def test_variables_are_pending_while_the_server_is_down(port, monitor):
  publisher = retrying_publisher.RetryingPublisher(monitor, first_version=7)
  assert publisher.publish(ARRAYS) == 6
  assert publisher.pending
  lost = []
  monitor.on_lost = lambda: lost.append(time.monotonic())
  version = 6
  for restarts in range(3):
    server = serve(port)
    polling.wait_until(lambda: monitor.up)
    assert monitor.incarnation == restarts + 1
    for _ in range(2):
      assert publisher.publish(ARRAYS) == version + 1
      version += 1
      assert not publisher.pending
    assert newest(port) == version
    server.stop()
    del server
    # The publisher notices the stop before or during an attempt. No attempt
    # blocks for ever.
    began_s = time.monotonic()
    while not publisher.pending:
      version = publisher.publish(ARRAYS)
    assert time.monotonic() - began_s < 30.0
    polling.wait_until(lambda: not monitor.up)
    assert len(lost) == restarts + 1
    assert publisher.publish(ARRAYS) == version
  publisher.close()


def test_variables_are_pending_after_a_server_restart(port, monitor):
  server = serve(port)
  polling.wait_until(lambda: monitor.up)
  publisher = retrying_publisher.RetryingPublisher(monitor, first_version=1)
  publisher.publish(ARRAYS)
  assert not publisher.pending
  server.stop()
  polling.wait_until(lambda: not monitor.up)
  server = serve(port)
  polling.wait_until(lambda: monitor.up)
  assert publisher.pending
  assert publisher.publish(ARRAYS) == 2
  assert not publisher.pending
  assert newest(port) == 2
  publisher.close()
  server.stop()


def test_counts_of_a_server_that_is_lost(port, monitor):
  assert monitor.status() is None
  server = serve(port)
  polling.wait_until(lambda: monitor.up)
  assert monitor.status().size == monitor.size == 0
  monitor.mark_lost()
  assert not monitor.up
  assert monitor.wait(DEADLINE_S), "the server never stopped"
  assert monitor.incarnation == 2
  server.stop()
