"""Tests of the proxy: commands, item streams and shards."""

import os
import threading

import numpy as np
import portpicker
import pytest
import reverb
import tensorflow as tf

from slipway.replay import proxy
from slipway.replay.items import writer as writer_lib
from slipway.replay.transport import control_block, relay, routes
from tests import polling

_DEADLINE_S = 60


def make_proxy(server_address: str, folder, **kwargs):
  return proxy.WorkerProxy(
    server_address,
    f"unix:{folder}/relay",
    f"{folder}/control_block",
    **kwargs,
  )


@pytest.fixture
def running(tmp_path):
  port = portpicker.pick_unused_port()
  started = make_proxy(f"localhost:{port}", tmp_path)
  started.start()
  yield port, started
  started.close()


def test_close_leaves_no_thread(running, tmp_path):
  _, worker_proxy = running
  control_block.WorkerHandle(f"{tmp_path}/control_block", 0)
  assert worker_proxy.stats().workers
  worker_proxy.close()
  # A node reports its proxy's stats after the proxy was closed.
  assert worker_proxy.stats().workers == {}
  assert "relay" not in {thread.name for thread in threading.enumerate()}
  # The control block is left for a successor.
  assert os.listdir(tmp_path) == ["control_block"]


def _write(writer, value: int) -> None:
  assert writer.wait(_DEADLINE_S)
  writer.write(np.full((1, 4), value, np.uint8), np.ones(1))


def test_workers_receive_commands_and_are_counted_and_drained(
  running, tmp_path
):
  port, worker_proxy = running
  server = _serve_table(port)
  handle = control_block.WorkerHandle(f"{tmp_path}/control_block", 5)
  assert worker_proxy.stats().workers == {5: relay.ClientStats()}
  route = routes.ProxyRoute(worker_proxy.address, handle)
  writer = writer_lib.ItemWriter(route, "t")
  polling.wait_until(lambda: writer.wait(0.1))
  for value in range(10):
    _write(writer, value)
  assert writer.flush(_DEADLINE_S)
  stats = worker_proxy.stats()
  assert stats.restarts == 0
  assert stats.workers[5].streams == 1
  assert stats.workers[5].bytes_up == stats.relay.bytes_up > 40
  assert stats.workers[5].bytes_down == stats.relay.bytes_down > 0

  worker_proxy.set_command(control_block.WorkerCommand.PAUSE, 30.0)
  assert handle.command == control_block.WorkerCommand.PAUSE
  assert handle.steps_per_s == 30.0
  assert not worker_proxy.drain(timeout_s=0.1), "the worker's stream is open"
  assert handle.command == control_block.WorkerCommand.DRAIN

  def drain():
    polling.wait_until(
      lambda: handle.command == control_block.WorkerCommand.DRAIN
    )
    _write(writer, 10)
    assert writer.close(_DEADLINE_S)

  worker = threading.Thread(target=drain)
  worker.start()
  assert worker_proxy.drain(_DEADLINE_S)
  worker.join()
  assert worker_proxy.stats().workers[5].streams == 0
  info = reverb.Client(f"localhost:{port}").server_info(10)["t"]
  assert info.current_size == writer.confirmed == 11
  assert writer.lost == 0
  server.stop()


def test_a_writer_names_what_it_waits_for(running, tmp_path):
  _, worker_proxy = running
  handle = control_block.WorkerHandle(f"{tmp_path}/control_block", 0)
  route = routes.ProxyRoute(worker_proxy.address, handle)
  writer = writer_lib.ItemWriter(route, "t")
  assert not writer.wait(0.05)
  assert writer.waits_for == "the replay server, which its proxy cannot reach"
  worker_proxy.close()
  assert not writer.wait(0.05)
  assert "the proxy at unix:" in writer.waits_for
  assert "is down" in writer.waits_for


def _serve_table(port: int):
  table = reverb.Table.queue("t", 100, signature=tf.TensorSpec([4], tf.uint8))
  return reverb.Server([table], port=port)


def test_workers_write_to_their_own_shards(tmp_path):
  ports = [portpicker.pick_unused_port() for _ in range(2)]
  shards = [(f"unix:{tmp_path}/relay-1", f"localhost:{ports[1]}")]
  worker_proxy = make_proxy(f"localhost:{ports[0]}", tmp_path, shards=shards)
  worker_proxy.start()
  handles = [
    control_block.WorkerHandle(f"{tmp_path}/control_block", i, i % 2)
    for i in range(2)
  ]
  sockets = ["relay", "relay-1"]
  writers = [
    writer_lib.ItemWriter(
      routes.ProxyRoute(f"unix:{tmp_path}/{name}", handle), "t"
    )
    for name, handle in zip(sockets, handles, strict=True)
  ]
  server = _serve_table(ports[0])
  polling.wait_until(lambda: writers[0].wait(0.1))
  assert not writers[1].wait(0.05), "the server of its shard is down"
  assert writers[1].waits_for == (
    "the server of replay shard 1, which its proxy cannot reach"
  )
  other = _serve_table(ports[1])
  polling.wait_until(lambda: writers[1].wait(0.1))
  for writer, count in zip(writers, (3, 5), strict=True):
    for value in range(count):
      _write(writer, value)
    assert writer.flush(_DEADLINE_S)
  held = [
    reverb.Client(f"localhost:{port}").server_info(10)["t"].current_size
    for port in ports
  ]
  assert held == [3, 5]
  stats = worker_proxy.stats()
  # Both writers are in this process; streams are counted per process.
  assert stats.workers[0].streams == stats.relay.connections_open == 2
  assert stats.workers[0].bytes_up == stats.relay.bytes_up > 8
  for writer in writers:
    assert writer.close(_DEADLINE_S)
  worker_proxy.close()
  server.stop()
  other.stop()
