"""Board, between real processes and within one."""

import multiprocessing
import os
import subprocess
import sys

import pytest

from slipway.replay.transport import control_block

_CONTEXT = multiprocessing.get_context("spawn")


@pytest.fixture
def path(tmp_path):
  return f"{tmp_path}/control_block"


def _sit(path: str, index: int | None, sitting, starts) -> None:
  """Takes a handle until killed."""
  handle = (
    control_block.ProxyHandle(path)
    if index is None
    else control_block.WorkerHandle(path, index)
  )
  if isinstance(handle, control_block.ProxyHandle):
    starts.put(handle.restarts)
  sitting.set()
  while True:
    sitting.wait()


class Sitter:
  """A process at the control block."""

  def __init__(self, path: str, index: int | None):
    sitting, self.starts = _CONTEXT.Event(), _CONTEXT.Queue()
    self.process = _CONTEXT.Process(
      target=_sit, args=(path, index, sitting, self.starts), daemon=True
    )
    self.process.start()
    assert sitting.wait(60)

  def kill(self) -> None:
    self.process.kill()
    self.process.join()


def test_who_is_killed_is_seen_to_be_gone(path):
  worker = control_block.WorkerHandle(path, 1)
  assert not worker.proxy_is_alive
  sitter = Sitter(path, None)
  assert worker.proxy_is_alive
  sitter.kill()
  assert not worker.proxy_is_alive
  proxy = control_block.ProxyHandle(path)
  assert proxy.restarts == 1
  assert worker.proxy_is_alive
  other = Sitter(path, 7)
  assert proxy.workers() == {1: os.getpid(), 7: other.process.pid}
  other.kill()
  assert proxy.workers() == {1: os.getpid()}
  worker.close()
  assert proxy.workers() == {}


def test_orders_reach_all_workers_and_outlive_the_proxy(path):
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
  # The share grows when a worker has gone and the proxy says it again.
  workers[1].close()
  proxy.set_command(control_block.WorkerCommand.DRAIN, 100.0)
  assert workers[0].steps_per_s == 100.0
  assert workers[0].command == control_block.WorkerCommand.DRAIN
  proxy.close()
  # An order to end was for those who were there then.
  control_block.ProxyHandle(path)
  assert workers[0].command == control_block.WorkerCommand.RUN


def test_a_process_with_a_broken_stream_is_let_in_when_it_knows(path):
  proxy = control_block.ProxyHandle(path)
  worker = control_block.WorkerHandle(path, 0)
  other = Sitter(path, 1)
  here, there = os.getpid(), other.process.pid
  assert proxy.admit(here) and proxy.admit(there)
  proxy.mark_broken(here)
  assert worker.stream_is_broken
  assert not proxy.admit(here)
  assert proxy.admit(there)
  proxy.mark_broken(here)  # The next one, before the first was noticed.
  worker.acknowledge_broken_stream()
  assert not worker.stream_is_broken
  assert proxy.admit(here)
  other.kill()


def test_each_worker_of_a_process_has_to_know(path):
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


# Takes one slot after the other, at each line of stdin. A process that executes
# a program keeps its pid and loses its locks, as if it had been killed and a
# later process had got its pid.
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


def test_a_dead_workers_slot_keeps_no_later_process_out(path):
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


def test_a_new_proxy_has_broken_the_streams_of_the_old(path):
  worker = control_block.WorkerHandle(path, 0)
  assert not worker.stream_is_broken
  proxy = control_block.ProxyHandle(path)
  assert worker.stream_is_broken
  # A worker that comes later never had a stream.
  late = control_block.WorkerHandle(path, 1)
  assert not late.stream_is_broken
  worker.acknowledge_broken_stream()
  assert proxy.admit(os.getpid())


def test_strangers_are_let_in(path):
  proxy = control_block.ProxyHandle(path)
  proxy.mark_broken(4_000_000)  # no worker's
  assert proxy.admit(4_000_000)
  proxy.mark_broken(0)  # whoever comes by TCP
  assert proxy.admit(0)


def test_whether_the_server_is_reachable(path):
  worker = control_block.WorkerHandle(path, 0)
  assert not worker.server_is_reachable
  proxy = control_block.ProxyHandle(path)
  admission = control_block.ShardAdmission(proxy, 0)
  admission.on_reachable(True)
  assert worker.server_is_reachable
  admission.on_reachable(False)
  assert not worker.server_is_reachable
  admission.on_reachable(True)
  proxy.close()
  control_block.ProxyHandle(path)
  assert not worker.server_is_reachable  # It does not know yet.


def test_each_shard_has_a_word_of_its_own(path):
  shards = range(control_block.MAX_SHARDS)
  proxy = control_block.ProxyHandle(path)
  workers = [
    control_block.WorkerHandle(path, 40 + shard, shard) for shard in shards
  ]
  proxy.set_command(control_block.WorkerCommand.PAUSE, 160.0)
  for shard in shards:
    control_block.ShardAdmission(proxy, shard).on_reachable(True)
    seen = [worker.server_is_reachable for worker in workers]
    assert seen == [index == shard for index in shards]
    control_block.ShardAdmission(proxy, shard).on_reachable(False)
  for worker in workers:
    assert (worker.command, worker.steps_per_s) == (
      control_block.WorkerCommand.PAUSE,
      10.0,
    )
    assert not worker.stream_is_broken


def test_a_place_is_taken_once(path):
  control_block.ProxyHandle(path)
  with pytest.raises(ValueError, match=f"'{path}' is in use by another proxy"):
    control_block.ProxyHandle(path)
  worker = control_block.WorkerHandle(path, 5)
  with pytest.raises(ValueError, match="in use by another worker 5"):
    control_block.WorkerHandle(path, 5)
  assert not worker.stream_is_broken, "a refused one changes nothing"
  worker.close()
  control_block.WorkerHandle(path, 5)


@pytest.mark.parametrize(
  "index", [-1, control_block.MAX_WORKERS + control_block.MAX_EXTERNALS]
)
def test_a_worker_index_without_a_slot_is_rejected(path, index):
  with pytest.raises(ValueError, match=f"worker index {index} has no slot"):
    control_block.WorkerHandle(path, index)


def test_what_is_no_board_is_left_alone(tmp_path):
  path = tmp_path / "control_block"
  path.write_bytes(b"something")
  with pytest.raises(ValueError, match="that this release did not write"):
    control_block.ProxyHandle(str(path))
  assert path.read_bytes() == b"something"
  with pytest.raises(ValueError, match="cannot be opened"):
    control_block.ProxyHandle(f"{tmp_path}/none/control_block")


def test_an_external_process_has_a_slot_of_its_own(path):
  proxy = control_block.ProxyHandle(path)
  worker = control_block.WorkerHandle(path, 0)
  index = control_block.MAX_WORKERS
  external = control_block.WorkerHandle(path, index)
  with pytest.raises(control_block.InUseError):
    control_block.WorkerHandle(path, index)
  assert sorted(proxy.workers()) == [0, index]
  proxy.set_command(control_block.WorkerCommand.RUN, 100.0)
  assert (worker.steps_per_s, external.steps_per_s) == (50.0, 50.0)
  # A slot that is released does not keep its process from being admitted.
  external.close()
  proxy.mark_broken(os.getpid())
  worker.acknowledge_broken_stream()
  assert proxy.admit(os.getpid())
  assert sorted(proxy.workers()) == [0]
