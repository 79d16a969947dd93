"""Tests of TrajectoryManager: its port, counts and checkpoints."""

import socket

import numpy as np
import portpicker
import pytest
import reverb

from slipway.replay.items import packing as packing_lib
from slipway.replay.items import writer as writer_lib
from slipway.replay.tables import (
  table_snapshot,
  table_status,
  tables,
  trajectory_manager,
)
from slipway.replay.transport import loopback, routes
from tests.replay import given

PACKING = packing_lib.Packing({"x": (np.dtype(np.int64), ())})
PRIORITIES = np.array([0.5, 1.0, 2.0, 4.0, 9.0])


def serve(port=None, folder=None, restore_from=None):
  spec = given.make_table_spec(
    PACKING.record_bytes, capacity=50, min_size=2, samples_per_insert=0.0
  )
  return trajectory_manager.TrajectoryManager(
    [tables.make_table(spec)],
    port or portpicker.pick_unused_port(),
    folder,
    restore_from,
  )


def save(manager, folder, name):
  """Saves the tables of a manager with `folder`/replay to `folder`/`name`."""
  saving_dir = folder / "replay"
  table_snapshot.TableSaver(manager.address, saving_dir, folder / name).finish()


def write(manager, priorities):
  writer = writer_lib.ItemWriter(
    routes.DirectRoute(manager.address), tables.TRANSITIONS
  )
  values = np.arange(len(priorities))
  assert writer.wait(timeout_s=20)
  writer.write(PACKING.pack({"x": values}), priorities)
  assert writer.close(timeout_s=20)


def read_items(manager):
  """Returns value, priority and probability of each item, by its key."""
  client, found = reverb.Client(manager.address), {}
  for item in client.sample(tables.TRANSITIONS, 500, emit_timesteps=False):
    (value,) = PACKING.unpack(np.array(item.data))["x"]
    info = item.info
    found[info.key] = int(value), info.priority, info.probability
  return found


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
  client = reverb.Client(manager.address)
  assert len(list(client.sample(tables.TRANSITIONS, num_samples=12))) == 12
  status = manager.status(tables.TRANSITIONS)
  # The ratio is 12 samples per 4 inserts after the minimum of 2.
  assert status == table_status.TableStatus(6, 6, 12, 3.0)
  write(manager, np.ones(60))
  status = manager.status(tables.TRANSITIONS)
  assert (status.size, status.inserted) == (50, 66)


def test_unknown_table(manager):
  with pytest.raises(KeyError, match="nothing"):
    manager.status("nothing")


def test_items_keys_and_priorities_survive_a_restart(tmp_path):
  first = serve(folder=tmp_path / "replay")  # a missing folder is created
  write(first, PRIORITIES)
  before = read_items(first)
  assert len(before) == 5
  save(first, tmp_path, "saved")
  first.close()

  second = serve(folder=tmp_path / "other", restore_from=tmp_path / "saved")
  assert second.address != first.address
  assert read_items(second) == before
  assert second.status(tables.TRANSITIONS).size == 5
  write(second, PRIORITIES)
  assert second.status(tables.TRANSITIONS).size == 10
  second.close()


def test_each_snapshot_stays_in_its_own_folder(tmp_path):
  first = serve(folder=tmp_path / "replay")
  for size in (5, 10):
    write(first, PRIORITIES)
    save(first, tmp_path, f"saved-{size}")
  write(first, PRIORITIES)  # not saved
  first.close()
  # A server restores nothing from its own `saving_dir`.
  empty = serve(folder=tmp_path / "replay")
  assert empty.status(tables.TRANSITIONS).size == 0
  empty.close()
  for size in (5, 10):
    manager = serve(
      folder=tmp_path / "replay", restore_from=tmp_path / f"saved-{size}"
    )
    assert manager.status(tables.TRANSITIONS).size == size
    manager.close()
  left = sorted(path.name for path in tmp_path.iterdir())
  assert left == ["saved-10", "saved-5"]


def test_a_snapshot_inside_the_emptied_folder_is_rejected(tmp_path):
  saved = tmp_path / "replay" / "saved"
  saved.mkdir(parents=True)
  for folder in (None, tmp_path / "replay", saved):
    with pytest.raises(ValueError, match="needs a saving_dir outside of it"):
      serve(folder=folder, restore_from=saved)
  assert saved.is_dir()
