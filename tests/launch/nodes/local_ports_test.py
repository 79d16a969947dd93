"""Tests of in-process ports: writes to a table, and versions of variables."""

import numpy as np
import pytest

from slipway.launch.nodes import local_ports
from slipway.replay.tables import local_queue, local_table
from slipway.replay.variables import variable_packing

RECORD_BYTES = 8


def make_records(count, first=0):
  return np.arange(first, first + count * RECORD_BYTES, dtype=np.uint8).reshape(
    count, RECORD_BYTES
  )


TABLES = {
  "table": lambda: local_table.LocalTable(100, RECORD_BYTES, 0.6, seed=1),
  "queue": lambda: local_queue.LocalQueue(RECORD_BYTES),
}


@pytest.mark.parametrize("table", TABLES)
def test_a_sink_writes_at_once(table):
  table = TABLES[table]()
  sink = local_ports.LocalSink(table)
  assert sink.wait(timeout_s=0.0)
  sink.write(make_records(2), np.ones(2))
  sink.write(make_records(3, first=16), np.ones(3))
  assert table.inserted == table.size == 5
  assert (sink.written, sink.confirmed, sink.lost) == (5, 5, 0)
  assert sink.streams == 1, "it never reconnects"
  assert sink.flush(timeout_s=0.0)
  assert sink.close(timeout_s=0.0)


def test_items_arrive_as_they_were_written():
  queue = local_queue.LocalQueue(RECORD_BYTES)
  sink = local_ports.LocalSink(queue)
  sink.write(make_records(4), np.ones(4))
  _, _, size, records = queue.sample(4)
  assert size == 4
  np.testing.assert_array_equal(records, make_records(4))


def test_versions_count_up():
  variables = local_ports.LocalVariables()
  assert variables.newest is None
  assert [variables.publish({"w": np.zeros(2)}) for _ in range(3)] == [1, 2, 3]
  assert variables.newest.version == 3
  variables.close()


def test_versions_continue_those_of_a_resumed_run():
  resumed = variable_packing.VersionedVariables(7, 1.6e9, {"w": np.ones(2)})
  variables = local_ports.LocalVariables(resumed)
  assert variables.make_source().poll() is resumed
  assert variables.publish({"w": np.zeros(2)}) == 8


def test_each_source_returns_each_version_once():
  variables = local_ports.LocalVariables()
  first, second = variables.make_source(), variables.make_source()
  assert first.poll() is None
  variables.publish({"w": np.full(2, 1.0)})
  assert first.poll().version == 1
  assert first.poll() is None
  variables.publish({"w": np.full(2, 2.0)})
  variables.publish({"w": np.full(2, 3.0)})
  for source in (first, second):
    newest = source.poll()
    assert newest.version == 3, "version 2 is skipped"
    np.testing.assert_array_equal(newest.variables["w"], [3.0, 3.0])
    assert source.poll() is None
