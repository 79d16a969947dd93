"""Tests of ItemWriter with a real server: sent items, and waits."""

import numpy as np
import pytest

from slipway.replay.items import writer as writer_lib
from slipway.replay.tables import tables
from slipway.replay.transport import routes
from tests.replay import given, served

records = served.numbers


def serve(port=None, **replay):
  # With batches of 1, the limiter blocks after few items.
  fields = {"capacity": 1_000, "min_size": 1, "batch_size": 1, **replay}
  spec = given.make_table_spec(prioritized=False, **fields)
  return served.serve(spec, port=port)


def make_writer(manager, **kwargs):
  """Returns a writer with an open stream."""
  writer = writer_lib.ItemWriter(
    routes.DirectRoute(manager.address), tables.TRANSITIONS, **kwargs
  )
  assert writer.wait(timeout_s=20)
  return writer


sample = served.sample


def status(manager):
  return manager.status(tables.TRANSITIONS)


@pytest.fixture(scope="module")
def unlimited():
  manager = serve(samples_per_insert=0.0)
  yield manager
  manager.close()


@pytest.fixture
def limited():
  """Table that blocks inserts when they are three ahead of the samples."""
  manager = serve(samples_per_insert=1.0, tolerance=1e-6)
  yield manager
  manager.close()


def test_written_items_arrive_with_their_priorities(unlimited):
  before = status(unlimited).size
  writer = make_writer(unlimited)
  writer.write(records(0, 30), np.full(30, 0.25))
  assert writer.wait(timeout_s=20)
  assert writer.written == 30
  assert writer.close(timeout_s=20)
  assert status(unlimited).size == before + 30
  for item in sample(unlimited, 50):
    assert item.info.priority == 0.25
    assert 0 <= served.number_of(item) < 30


def test_close_sends_what_is_queued(unlimited):
  before = status(unlimited).inserted
  writer = make_writer(unlimited)
  writer.write(records(0, 0), np.zeros(0))
  for i in range(5):  # too few items for `wait` to flush
    writer.write(records(i, 1), np.full(1, 0.25))
    assert writer.wait(timeout_s=20)
  assert writer.close(timeout_s=20)
  assert writer.written == 5
  assert status(unlimited).inserted == before + 5


@pytest.mark.parametrize(
  ("priorities", "line"),
  [
    ([1.0] * 3, "2 records came with 3 priorities"),
    *(
      ([0.25, bad], r"priorities\[1\]=.* finite")
      for bad in (np.nan, np.inf, -1)
    ),
  ],
)
def test_wrong_priorities_are_rejected_before_they_are_sent(
  unlimited, priorities, line
):
  before = status(unlimited).inserted
  writer = make_writer(unlimited)
  with pytest.raises(ValueError, match=line):
    writer.write(records(0, 2), np.array(priorities))
  assert writer.written == 0
  writer.write(records(0, 2), np.full(2, 0.25))
  assert writer.close(timeout_s=20)
  assert status(unlimited).inserted == before + 2


def test_limiter_blocks_the_writer_until_items_are_sampled(limited):
  writer = make_writer(limited)
  count = writer_lib.MAX_IN_FLIGHT
  writer.write(records(0, count), np.ones(count))
  assert not writer.wait(timeout_s=0.3)
  assert not writer.wait(timeout_s=0.1), "the writer still waits"
  assert status(limited).inserted == 3
  sample(limited, count // 2)
  assert writer.wait(timeout_s=20)
  assert status(limited).inserted >= count // 2
  sample(limited, count // 2)
  assert writer.close(timeout_s=20)
  assert status(limited).inserted == count
  assert status(limited).sampled == count


def test_the_unconfirmed_items_can_be_limited(limited):
  writer = make_writer(limited, unconfirmed=1)
  writer.write(records(0, 5), np.ones(5))
  assert not writer.wait(timeout_s=0.3), "unconfirmed items remain"
  sample(limited, 1)
  assert writer.wait(timeout_s=20)
  writer.write(records(5, 1), np.ones(1))
  assert not writer.wait(timeout_s=0.1)
  sample(limited, 5)
  assert writer.close(timeout_s=20)


def test_the_first_write_needs_a_stream(unlimited):
  route = routes.DirectRoute(unlimited.address)
  writer = writer_lib.ItemWriter(route, tables.TRANSITIONS)
  with pytest.raises(RuntimeError, match=r"2 items .* there is no stream"):
    writer.write(records(0, 2), np.ones(2))


def test_a_restarted_server_gets_a_fresh_stream():
  manager = serve(samples_per_insert=0.0)
  port = int(manager.address.split(":")[1])
  writer = make_writer(manager)
  writer.write(records(0, 30), np.ones(30))
  assert writer.flush(timeout_s=20)
  assert (writer.confirmed, writer.lost, writer.streams) == (30, 0, 1)
  manager.close()
  writer.write(records(30, 20), np.ones(20))
  while writer.lost == 0:
    assert not writer.wait(timeout_s=0.1)
  assert (writer.confirmed, writer.lost) == (30, 20)
  assert not writer.wait(timeout_s=0.1)
  assert writer.waits_for == (
    f"the replay server at {manager.address}, which is down"
  )
  # A worker may find the stream broken while it waits for its environments, and
  # has their items then.
  writer.write(records(0, 2), np.ones(2))
  assert (writer.written, writer.confirmed, writer.lost) == (52, 30, 22)
  assert writer.flush(timeout_s=0.1), "nothing is in flight"

  successor = serve(port, samples_per_insert=0.0)
  assert writer.wait(timeout_s=20)
  writer.write(records(50, 5), np.ones(5))
  assert writer.close(timeout_s=20)
  assert (writer.written, writer.confirmed, writer.lost) == (57, 35, 22)
  assert writer.streams == 2
  # No lost item was sent again.
  assert status(successor).inserted == 5
  successor.close()


def test_items_that_close_discards_are_counted(limited):
  writer = make_writer(limited)
  inserted = status(limited).inserted
  writer.write(records(0, 30), np.ones(30))
  assert not writer.close(timeout_s=0.3)
  arrived = status(limited).inserted - inserted
  assert arrived == 3
  assert (writer.confirmed, writer.discarded) == (arrived, 30 - arrived)
  assert writer.lost == 0  # no stream has broken


def test_a_missing_table_is_an_error(unlimited):
  route = routes.DirectRoute(unlimited.address)
  writer = writer_lib.ItemWriter(route, "none")
  assert writer.wait(timeout_s=20)
  with pytest.raises(RuntimeError, match="none"):
    for _ in range(1_000):
      writer.write(records(0, 16), np.ones(16))
      assert writer.wait(timeout_s=20)


def test_an_invalid_address_is_rejected():
  with pytest.raises(ValueError, match="address is 'nowhere'"):
    routes.DirectRoute("nowhere")
