"""Board, between real processes and within one."""

import multiprocessing
import os

import pytest

from slipway.replay import board

_CONTEXT = multiprocessing.get_context("spawn")


@pytest.fixture
def path(tmp_path):
  return f"{tmp_path}/board"


def _sit(path: str, index: int | None, sitting, starts) -> None:
  """Takes a seat until killed."""
  seat = (
    board.ProxySeat(path) if index is None else board.WorkerSeat(path, index)
  )
  if isinstance(seat, board.ProxySeat):
    starts.put(seat.restarts)
  sitting.set()
  while True:
    sitting.wait()


class Sitter:
  """A process at the board."""

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
  worker = board.WorkerSeat(path, 1)
  assert not worker.proxy_is_alive
  sitter = Sitter(path, None)
  assert worker.proxy_is_alive
  sitter.kill()
  assert not worker.proxy_is_alive
  proxy = board.ProxySeat(path)
  assert proxy.restarts == 1
  assert worker.proxy_is_alive
  other = Sitter(path, 7)
  assert proxy.workers() == {1: os.getpid(), 7: other.process.pid}
  other.kill()
  assert proxy.workers() == {1: os.getpid()}
  worker.close()
  assert proxy.workers() == {}


def test_orders_reach_all_workers_and_outlive_the_proxy(path):
  workers = [board.WorkerSeat(path, index) for index in (0, 3)]
  assert [w.flow for w in workers] == [board.Flow.RUN] * 2
  assert [w.steps_per_s for w in workers] == [0.0] * 2
  proxy = board.ProxySeat(path)
  proxy.direct(board.Flow.PAUSE, 100.0)
  assert [w.flow for w in workers] == [board.Flow.PAUSE] * 2
  assert [w.steps_per_s for w in workers] == [50.0] * 2
  proxy.close()
  proxy = board.ProxySeat(path)
  assert workers[0].flow == board.Flow.PAUSE
  # The share grows when a worker has gone and the proxy says it again.
  workers[1].close()
  proxy.direct(board.Flow.DRAIN, 100.0)
  assert workers[0].steps_per_s == 100.0
  assert workers[0].flow == board.Flow.DRAIN
  proxy.close()
  # An order to end was for those who were there then.
  board.ProxySeat(path)
  assert workers[0].flow == board.Flow.RUN


def test_a_process_with_a_broken_stream_is_let_in_when_it_knows(path):
  proxy = board.ProxySeat(path)
  worker = board.WorkerSeat(path, 0)
  other = Sitter(path, 1)
  here, there = os.getpid(), other.process.pid
  assert proxy.admit(here) and proxy.admit(there)
  proxy.broke(here)
  assert worker.stream_is_broken
  assert not proxy.admit(here)
  assert proxy.admit(there)
  proxy.broke(here)  # The next one, before the first was noticed.
  worker.acknowledge()
  assert not worker.stream_is_broken
  assert proxy.admit(here)
  other.kill()


def test_each_worker_of_a_process_has_to_know(path):
  proxy = board.ProxySeat(path)
  first, second = board.WorkerSeat(path, 0), board.WorkerSeat(path, 1)
  proxy.broke(os.getpid())
  first.acknowledge()
  assert not proxy.admit(os.getpid())
  second.acknowledge()
  assert proxy.admit(os.getpid())


def test_a_new_proxy_has_broken_the_streams_of_the_old(path):
  worker = board.WorkerSeat(path, 0)
  assert not worker.stream_is_broken
  proxy = board.ProxySeat(path)
  assert worker.stream_is_broken
  # A worker that comes later never had a stream.
  late = board.WorkerSeat(path, 1)
  assert not late.stream_is_broken
  worker.acknowledge()
  assert proxy.admit(os.getpid())


def test_strangers_are_let_in(path):
  proxy = board.ProxySeat(path)
  proxy.broke(4_000_000)  # no worker's
  assert proxy.admit(4_000_000)
  proxy.broke(0)  # whoever comes by TCP
  assert proxy.admit(0)


def test_whether_the_server_is_reachable(path):
  worker = board.WorkerSeat(path, 0)
  assert not worker.server_is_reachable
  proxy = board.ProxySeat(path)
  gate = proxy.gate(0)
  gate.upstream(True)
  assert worker.server_is_reachable
  gate.upstream(False)
  assert not worker.server_is_reachable
  gate.upstream(True)
  proxy.close()
  board.ProxySeat(path)
  assert not worker.server_is_reachable  # It does not know yet.


def test_each_shard_has_a_word_of_its_own(path):
  shards = range(board.MAX_SHARDS)
  proxy = board.ProxySeat(path)
  workers = [board.WorkerSeat(path, 40 + shard, shard) for shard in shards]
  proxy.direct(board.Flow.PAUSE, 160.0)
  for shard in shards:
    proxy.gate(shard).upstream(True)
    seen = [worker.server_is_reachable for worker in workers]
    assert seen == [index == shard for index in shards]
    proxy.gate(shard).upstream(False)
  for worker in workers:
    assert (worker.flow, worker.steps_per_s) == (board.Flow.PAUSE, 10.0)
    assert not worker.stream_is_broken


def test_a_place_is_taken_once(path):
  board.ProxySeat(path)
  with pytest.raises(ValueError, match=f"'{path}' is in use by another proxy"):
    board.ProxySeat(path)
  worker = board.WorkerSeat(path, 5)
  with pytest.raises(ValueError, match="in use by another worker 5"):
    board.WorkerSeat(path, 5)
  assert not worker.stream_is_broken, "a refused one changes nothing"
  worker.close()
  board.WorkerSeat(path, 5)


@pytest.mark.parametrize("index", [-1, board.MAX_WORKERS + board.MAX_EXTERNALS])
def test_there_is_no_such_line(path, index):
  with pytest.raises(ValueError, match=f"worker index {index} has no line"):
    board.WorkerSeat(path, index)


def test_what_is_no_board_is_left_alone(tmp_path):
  path = tmp_path / "board"
  path.write_bytes(b"something")
  with pytest.raises(ValueError, match="no board of this release"):
    board.ProxySeat(str(path))
  assert path.read_bytes() == b"something"
  with pytest.raises(ValueError, match="cannot be opened"):
    board.ProxySeat(f"{tmp_path}/none/board")


def test_an_external_process_has_a_line_of_its_own(path):
  proxy = board.ProxySeat(path)
  worker = board.WorkerSeat(path, 0)
  index = board.MAX_WORKERS
  seat = board.WorkerSeat(path, index)
  with pytest.raises(board.InUseError):
    board.WorkerSeat(path, index)
  assert sorted(proxy.workers()) == [0, index]
  proxy.direct(board.Flow.RUN, 100.0)
  assert (worker.steps_per_s, seat.steps_per_s) == (50.0, 50.0)
  # What it has given up does not keep its process from being admitted.
  seat.close()
  proxy.broke(os.getpid())
  worker.acknowledge()
  assert proxy.admit(os.getpid())
  assert sorted(proxy.workers()) == [0]
