"""Tests of TrajectoryManager: its port, counts and checkpoints."""

import socket

import numpy as np
import portpicker
import pytest

from slipway.replay.tables import table_snapshot, table_status, tables
from slipway.replay.transport import loopback
from tests.replay import given, served

PRIORITIES = np.array([0.5, 1.0, 2.0, 4.0, 9.0])


def serve(port=None, *folders):
  spec = given.make_table_spec(
    8, capacity=50, min_size=2, samples_per_insert=0.0
  )
  return served.serve(spec, port=port, folders=folders)


def write(manager, priorities):
  served.write(manager, served.numbers(0, len(priorities)), priorities)


def save(manager, folder, name):
  """Saves the tables of a manager with `folder`/replay to `folder`/`name`."""
  saving_dir = folder / "replay"
  table_snapshot.TableSaver(manager.address, saving_dir, folder / name).finish()


def read_items(manager):
  """Returns value, priority and probability of each item, by its key."""
  return {
    x.info.key: (served.number_of(x), x.info.priority, x.info.probability)
    for x in served.sample(manager, 500)
  }


@pytest.fixture(scope="module")
def manager():
  manager = serve()
  yield manager
  manager.close()


def test_port_in_use_is_one_line(manager):
  port = int(manager.address.rsplit(":", 1)[1])
  with pytest.raises(OSError) as error:
    serve(port)
  message = str(error.value)
  assert message.startswith(f"replay port {port} is in use")
  assert "\n" not in message


def test_the_server_listens_on_loopback_only(manager):
  devices = set()
  for connection in loopback._sockets_at(
    int(manager.address.rpartition(":")[2])
  ):
    with connection:
      if connection.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
        option = (socket.SOL_SOCKET, socket.SO_BINDTODEVICE, 16)
        devices.add(connection.getsockopt(*option))
  assert devices == {b"lo\0"}


def test_port_is_free_after_close():
  port = portpicker.pick_unused_port()
  for _ in range(2):
    manager = serve(port)
    write(manager, PRIORITIES)
    assert manager.status(tables.TRANSITIONS).size == 5
    manager.close()


def test_status_counts(manager):
  assert manager.status(tables.TRANSITIONS) == table_status.TableStatus()
  write(manager, np.ones(1))
  assert manager.status(tables.TRANSITIONS) == table_status.TableStatus(1, 1)
  write(manager, np.ones(5))
  assert len(served.sample(manager, 12)) == 12
  status = manager.status(tables.TRANSITIONS)
  # The ratio is 12 samples per 4 inserts after the minimum of 2.
  assert status == table_status.TableStatus(6, 6, 12, 3.0)
  write(manager, np.ones(60))
  status = manager.status(tables.TRANSITIONS)
  assert (status.size, status.inserted) == (50, 66)
  with pytest.raises(KeyError, match="nothing"):
    manager.status("nothing")


def test_items_keys_and_priorities_survive_a_restart(tmp_path):
  first = serve(None, tmp_path / "replay")  # a missing folder is created
  write(first, PRIORITIES)
  before = read_items(first)
  assert len(before) == 5
  save(first, tmp_path, "saved")
  first.close()

  second = serve(None, tmp_path / "other", tmp_path / "saved")
  assert second.address != first.address
  assert read_items(second) == before
  assert second.status(tables.TRANSITIONS).size == 5
  write(second, PRIORITIES)
  assert second.status(tables.TRANSITIONS).size == 10
  second.close()


def test_each_snapshot_stays_in_its_own_folder(tmp_path):
  first = serve(None, tmp_path / "replay")
  for size in (5, 10):
    write(first, PRIORITIES)
    save(first, tmp_path, f"saved-{size}")
  write(first, PRIORITIES)  # not saved
  first.close()
  # A server restores nothing from its own `saving_dir`.
  empty = serve(None, tmp_path / "replay")
  assert empty.status(tables.TRANSITIONS).size == 0
  empty.close()
  for size in (5, 10):
    manager = serve(None, tmp_path / "replay", tmp_path / f"saved-{size}")
    assert manager.status(tables.TRANSITIONS).size == size
    manager.close()
  left = sorted(path.name for path in tmp_path.iterdir())
  assert left == ["saved-10", "saved-5"]
