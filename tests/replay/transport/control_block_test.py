"""Tests of the control block, between processes and within one."""

import multiprocessing
import os
import subprocess
import sys
import time

import pytest

from slipway.replay.transport import control_block

_CONTEXT = multiprocessing.get_context("spawn")


@pytest.fixture
def path(tmp_path):
  return f"{tmp_path}/control_block"


def _hold_handle(path: str, index: int | None, is_held) -> None:
  """Holds a handle until the process is killed."""
  handle = (
    control_block.ProxyHandle(path)
    if index is None
    else control_block.WorkerHandle(path, index)
  )
  is_held.set()
  time.sleep(600)
  handle.close()


class HandleProcess:
  """Process that holds a handle of the control block until it is killed."""

  def __init__(self, path: str, index: int | None):
    is_held = _CONTEXT.Event()
    self.process = _CONTEXT.Process(
      target=_hold_handle, args=(path, index, is_held), daemon=True
    )
    self.process.start()
    assert is_held.wait(60)

  def kill(self) -> None:
    self.process.kill()
    self.process.join()


def test_killed_processes_are_detected(path):
  worker = control_block.WorkerHandle(path, 1)
  assert not worker.proxy_is_alive
  proxy_process = HandleProcess(path, None)
  assert worker.proxy_is_alive
  proxy_process.kill()
  assert not worker.proxy_is_alive
  proxy = control_block.ProxyHandle(path)
  assert proxy.restarts == 1
  assert worker.proxy_is_alive
  other = HandleProcess(path, 7)
  assert proxy.workers() == {1: os.getpid(), 7: other.process.pid}
  other.kill()
  assert proxy.workers() == {1: os.getpid()}
  worker.close()
  assert proxy.workers() == {}


def test_commands_reach_all_workers_and_remain_after_the_proxy(path):
  workers = [control_block.WorkerHandle(path, index) for index in (0, 3)]
  assert [w.command for w in workers] == [control_block.WorkerCommand.RUN] * 2
  assert [w.steps_per_s for w in workers] == [0.0] * 2
  proxy = control_block.ProxyHandle(path)
  proxy.set_command(control_block.WorkerCommand.PAUSE, 100.0)
  assert [w.command for w in workers] == [control_block.WorkerCommand.PAUSE] * 2
  assert [w.steps_per_s for w in workers] == [50.0] * 2
  proxy.close()
  proxy = control_block.ProxyHandle(path)
  assert workers[0].command == control_block.WorkerCommand.PAUSE
  # If a worker has closed, the next command gives the others a larger share.
  workers[1].close()
  proxy.set_command(control_block.WorkerCommand.DRAIN, 100.0)
  assert workers[0].steps_per_s == 100.0
  assert workers[0].command == control_block.WorkerCommand.DRAIN
  proxy.close()
  # A new proxy resets the command to exit, which was for the earlier workers.
  control_block.ProxyHandle(path)
  assert workers[0].command == control_block.WorkerCommand.RUN


def test_a_process_is_admitted_when_it_has_acknowledged_a_broken_stream(path):
  proxy = control_block.ProxyHandle(path)
  worker = control_block.WorkerHandle(path, 0)
  other = HandleProcess(path, 1)
  here, there = os.getpid(), other.process.pid
  assert proxy.admit(here) and proxy.admit(there)
  proxy.mark_broken(here)
  assert worker.stream_is_broken
  assert not proxy.admit(here)
  assert proxy.admit(there)
  # A second stream breaks before the worker has noticed the first.
  proxy.mark_broken(here)
  worker.acknowledge_broken_stream()
  assert not worker.stream_is_broken
  assert proxy.admit(here)
  other.kill()


def test_each_worker_of_a_process_has_to_acknowledge(path):
  proxy = control_block.ProxyHandle(path)
  first, second = (
    control_block.WorkerHandle(path, 0),
    control_block.WorkerHandle(path, 1),
  )
  proxy.mark_broken(os.getpid())
  first.acknowledge_broken_stream()
  assert not proxy.admit(os.getpid())
  second.acknowledge_broken_stream()
  assert proxy.admit(os.getpid())


# Takes one slot after the other, at each line of stdin. A process that calls
# exec keeps its pid and loses its locks. So it looks like a killed process
# whose pid was given to a later one.
_SUCCESSIVE_WORKERS = """
import os, sys
from slipway.replay.transport import control_block
path, index, *later = sys.argv[1:]
handle = control_block.WorkerHandle(path, int(index))
print(flush=True)
sys.stdin.readline()
if later:
  os.execv(sys.executable, [*sys.orig_argv[:3], path, *later])
"""


def test_a_dead_workers_slot_does_not_exclude_a_later_process(path):
  proxy = control_block.ProxyHandle(path)
  with subprocess.Popen(
    [sys.executable, "-c", _SUCCESSIVE_WORKERS, path, "7", "3"],
    stdin=subprocess.PIPE,
    stdout=subprocess.PIPE,
    text=True,
  ) as worker:
    assert worker.stdin and worker.stdout
    worker.stdout.readline()
    assert proxy.workers() == {7: worker.pid}
    proxy.mark_broken(worker.pid)
    assert not proxy.admit(worker.pid)
    worker.stdin.write("\n")
    worker.stdin.flush()
    worker.stdout.readline()
    assert proxy.workers() == {3: worker.pid}
    assert proxy.admit(worker.pid)
    proxy.mark_broken(worker.pid)
    assert not proxy.admit(worker.pid)


def test_a_new_proxy_marks_existing_streams_as_broken(path):
  worker = control_block.WorkerHandle(path, 0)
  assert not worker.stream_is_broken
  proxy = control_block.ProxyHandle(path)
  assert worker.stream_is_broken
  # A worker that starts later has had no stream.
  late = control_block.WorkerHandle(path, 1)
  assert not late.stream_is_broken
  worker.acknowledge_broken_stream()
  assert proxy.admit(os.getpid())


def test_processes_without_a_slot_are_admitted(path):
  proxy = control_block.ProxyHandle(path)
  proxy.mark_broken(4_000_000)  # pid of no worker
  assert proxy.admit(4_000_000)
  proxy.mark_broken(0)  # clients by TCP
  assert proxy.admit(0)


def test_whether_the_server_is_reachable(path):
  worker = control_block.WorkerHandle(path, 0)
  assert not worker.server_is_reachable
  proxy = control_block.ProxyHandle(path)
  proxy.set_reachable(0, True)
  assert worker.server_is_reachable
  proxy.set_reachable(0, False)
  assert not worker.server_is_reachable
  proxy.set_reachable(0, True)
  proxy.close()
  control_block.ProxyHandle(path)
  assert not worker.server_is_reachable  # not probed yet


def test_each_shard_has_its_own_field(path):
  shards = range(control_block.MAX_SHARDS)
  proxy = control_block.ProxyHandle(path)
  workers = [
    control_block.WorkerHandle(path, 40 + shard, shard) for shard in shards
  ]
  proxy.set_command(control_block.WorkerCommand.PAUSE, 160.0)
  for shard in shards:
    proxy.set_reachable(shard, True)
    seen = [worker.server_is_reachable for worker in workers]
    assert seen == [index == shard for index in shards]
    proxy.set_reachable(shard, False)
  for worker in workers:
    assert (worker.command, worker.steps_per_s) == (
      control_block.WorkerCommand.PAUSE,
      10.0,
    )
    assert not worker.stream_is_broken


def test_a_slot_is_held_once(path):
  control_block.ProxyHandle(path)
  with pytest.raises(ValueError, match=f"'{path}' is in use by another proxy"):
    control_block.ProxyHandle(path)
  worker = control_block.WorkerHandle(path, 5)
  with pytest.raises(ValueError, match="in use by another worker 5"):
    control_block.WorkerHandle(path, 5)
  assert not worker.stream_is_broken, "a rejected worker changes nothing"
  worker.close()
  control_block.WorkerHandle(path, 5)


@pytest.mark.parametrize(
  "index", [-1, control_block.MAX_WORKERS + control_block.MAX_EXTERNALS]
)
def test_a_worker_index_without_a_slot_is_rejected(path, index):
  with pytest.raises(ValueError, match=f"worker index {index} has no slot"):
    control_block.WorkerHandle(path, index)


def test_a_file_of_another_kind_is_not_changed(tmp_path):
  path = tmp_path / "control_block"
  path.write_bytes(b"something")
  with pytest.raises(ValueError, match="that this release did not write"):
    control_block.ProxyHandle(str(path))
  assert path.read_bytes() == b"something"


def test_an_external_process_has_its_own_slot(path):
  proxy = control_block.ProxyHandle(path)
  worker = control_block.WorkerHandle(path, 0)
  index = control_block.MAX_WORKERS
  external = control_block.WorkerHandle(path, index)
  with pytest.raises(control_block.InUseError):
    control_block.WorkerHandle(path, index)
  assert sorted(proxy.workers()) == [0, index]
  proxy.set_command(control_block.WorkerCommand.RUN, 100.0)
  assert (worker.steps_per_s, external.steps_per_s) == (50.0, 50.0)
  # A process is admitted although its released slot has not acknowledged.
  external.close()
  proxy.mark_broken(os.getpid())
  worker.acknowledge_broken_stream()
  assert proxy.admit(os.getpid())
  assert sorted(proxy.workers()) == [0]
