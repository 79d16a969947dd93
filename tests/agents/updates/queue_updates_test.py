"""Tests of QueueUpdates: items once and in order, and whole batches."""

import threading
import time

import portpicker
import pytest

from slipway.agents.updates import queue_updates
from slipway.replay.tables import queue_reader, tables, trajectory_manager
from tests import polling
from tests.agents.updates import given, queue_server
from tests.replay import forked

SPEC = queue_server.SPEC
SERVE = f"{queue_server.__name__}:serve"
TAKE = f"{queue_server.__name__}:take_batches"

pytestmark = pytest.mark.timeout(240)


@pytest.fixture
def make_server():
  managers = []

  def make(spec=SPEC):
    managers.append(
      trajectory_manager.TrajectoryManager(
        [tables.make_table(spec)], portpicker.pick_unused_port()
      )
    )
    return managers[-1]

  yield make
  for manager in managers:
    manager.close()


def make_updates(*servers):
  learner = given.RecordingLearner()
  addresses = [server.address for server in servers]
  return learner, queue_updates.QueueUpdates(learner, SPEC, addresses)


def counts_of(status):
  return status.size, status.inserted, status.sampled


def counts(manager):
  return counts_of(manager.status(tables.TRANSITIONS))


def test_a_full_queue_blocks_its_writer_and_evicts_nothing(make_server):
  server = make_server(given.make_spec(capacity=10))
  thread = threading.Thread(
    target=queue_server.write, args=(server.address, 0, 24)
  )
  thread.start()
  polling.wait_until(lambda: counts(server) == (10, 10, 0))
  learner, updates = make_updates(server)
  polling.wait_until(lambda: updates.run(1) and len(learner.learned) == 24)
  thread.join()
  assert learner.learned == list(range(24))


def test_only_whole_batches_are_taken(make_server):
  server = make_server()
  queue_server.write(server.address, 0, 12)
  learner, updates = make_updates(server)
  assert updates.run(5).metrics["step"] == 1.0
  assert counts(server) == (4, 12, 8)
  starved_until_s = time.monotonic() + 1.5
  while time.monotonic() < starved_until_s:
    assert updates.run(5) is None
  assert counts(server) == (4, 12, 8)
  assert counts_of(updates.statuses()[0]) == (4, 12, 8)
  queue_server.write(server.address, 12, 4)
  assert updates.run(5).metrics["step"] == 2.0
  updates.close()
  assert learner.learned == list(range(16))
  assert counts(server) == (0, 16, 16)


def test_the_oldest_items_beyond_whole_batches_are_dropped(make_server):
  server = make_server()
  queue_server.write(server.address, 0, 19)
  learner, updates = make_updates(server)
  updates.drop_rest()
  assert counts(server) == (16, 19, 3)
  assert updates.run(5).metrics["step"] == 2.0
  updates.drop_rest()  # there is nothing to drop
  assert counts(server) == (0, 19, 19)
  updates.close()
  assert learner.learned == list(range(3, 19))


def test_batches_alternate_between_servers_and_items_are_learned_once(
  make_server,
):
  servers = [make_server() for _ in range(3)]
  # The servers have 3 batches, no whole batch, and 2 and a half batches.
  for first, count, server in zip(
    (0, 100, 200), (24, 4, 20), servers, strict=True
  ):
    queue_server.write(server.address, first, count)
  learner, updates = make_updates(*servers)
  assert updates.run(2).metrics["step"] == 2.0
  assert updates.run(9).metrics["step"] == 5.0
  assert updates.run(9) is None
  starts = learner.learned[::8]
  assert starts == [0, 200, 8, 208, 16]
  assert learner.learned == [x + i for x in starts for i in range(8)]
  assert [counts(server)[0] for server in servers] == [0, 4, 4]


def test_a_reader_that_is_killed_loses_at_most_its_current_batch():
  port = portpicker.pick_unused_port()
  address = f"localhost:{port}"
  taken = []
  with forked.running(SERVE, port, 0):
    with forked.running(TAKE, port) as reader:
      for call in range(6):
        queue_server.write(address, 10 * call, 10)
      for _ in range(3):
        taken += map(int, reader.stdout.readline().split())
      reader.kill()
      for line in reader.stdout:
        taken += map(int, line.split()) if line.endswith("\n") else []
    queue = queue_reader.QueueReader(address, SPEC.batch_size)
    queue_server.write(address, 60, 20)
    rest = []
    polling.wait_until(
      lambda: (batch := queue.take()) is None or rest.extend(batch.data)
    )
  rest = [queue_server.number(item) for item in rest]
  left = 80 - len(taken) - len(rest)
  # Each item is read once and in order, except for at most one lost batch, and
  # the last items that do not fill a batch.
  assert taken == list(range(len(taken)))
  assert rest == list(range(rest[0], rest[0] + len(rest)))
  assert 0 <= rest[0] - len(taken) <= SPEC.batch_size
  assert left - (rest[0] - len(taken)) < SPEC.batch_size
