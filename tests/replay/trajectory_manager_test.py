"""TrajectoryManager: ports, counts, checkpoints."""

import numpy as np
import portpicker
import pytest
import reverb

from configs import prioritized_dqn
from replay import packing as packing_lib
from replay import routes, table_status, tables, trajectory_manager
from replay import writer as writer_lib

PACKING = packing_lib.Packing({"x": (np.dtype(np.int64), ())})
PRIORITIES = np.array([0.5, 1.0, 2.0, 4.0, 9.0])


def serve(port=None, folder=None):
  config = prioritized_dqn.get_config()
  config.replay.update(
    {"capacity": 50, "min_size": 2, "samples_per_insert": 0.0}
  )
  return trajectory_manager.TrajectoryManager(
    [tables.make_table(config, PACKING)],
    port or portpicker.pick_unused_port(),
    folder and str(folder),
  )


def write(manager, priorities):
  writer = writer_lib.ItemWriter(
    routes.DirectRoute(manager.address), tables.TRANSITIONS
  )
  values = np.arange(len(priorities))
  assert writer.wait(timeout_s=20)
  writer.write(PACKING.pack({"x": values}), priorities)
  assert writer.close(timeout_s=20)


def held(manager):
  """Value, priority and probability of each item, by its key."""
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


def test_port_is_free_after_close():
  port = portpicker.pick_unused_port()
  for _ in range(2):
    manager = serve(port)
    write(manager, PRIORITIES)
    assert manager.status(tables.TRANSITIONS).size == 5
    manager.close()


def test_status_counts(manager):
  assert manager.status(tables.TRANSITIONS) == (0, 0, 0, 0.0)
  write(manager, np.ones(1))
  assert manager.status(tables.TRANSITIONS) == (1, 1, 0, 0.0)
  write(manager, np.ones(5))
  client = reverb.Client(manager.address)
  assert len(list(client.sample(tables.TRANSITIONS, num_samples=12))) == 12
  status = manager.status(tables.TRANSITIONS)
  # 4 inserts since the table had its minimum of 2.
  assert status == table_status.TableStatus(6, 6, 12, 3.0)
  write(manager, np.ones(60))
  status = manager.status(tables.TRANSITIONS)
  assert (status.size, status.inserted) == (50, 66)


def test_unknown_table(manager):
  with pytest.raises(KeyError, match="nothing"):
    manager.status("nothing")


def test_checkpoint_without_a_folder_is_an_error(manager):
  with pytest.raises(RuntimeError, match="checkpoint_dir=None"):
    manager.checkpoint()


def test_items_keys_and_priorities_outlive_the_server(tmp_path):
  folder = tmp_path / "replay"  # made where it is missing
  first = serve(folder=folder)
  write(first, PRIORITIES)
  before = held(first)
  assert len(before) == 5
  written = first.checkpoint()
  assert written.startswith(str(folder))
  first.close()

  second = serve(folder=folder)
  assert second.address != first.address
  assert held(second) == before
  assert second.status(tables.TRANSITIONS).size == 5
  write(second, PRIORITIES)
  assert second.status(tables.TRANSITIONS).size == 10
  second.close()


def test_newest_checkpoint_is_restored(tmp_path):
  first = serve(folder=tmp_path)
  for size in (5, 10):
    write(first, PRIORITIES)
    first.checkpoint()
    assert first.status(tables.TRANSITIONS).size == size
  write(first, PRIORITIES)  # and is lost
  first.close()
  second = serve(folder=tmp_path)
  assert second.status(tables.TRANSITIONS).size == 10
  second.close()
