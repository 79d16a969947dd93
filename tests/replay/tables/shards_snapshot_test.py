"""Tests of snapshots of several servers, one of which is down."""

import shutil

import numpy as np
import portpicker
import pytest
import reverb

from slipway.replay.items import packing as packing_lib
from slipway.replay.items import writer as writer_lib
from slipway.replay.tables import shards_snapshot, tables, trajectory_manager
from slipway.replay.transport import routes
from tests.replay import given

PACKING = packing_lib.Packing({"x": (np.dtype(np.int64), ())})


class Server:
  """Replay server of one shard, with the folder that it saves to."""

  def __init__(self, folder, shard, restored_from=None):
    spec = given.make_table_spec(
      PACKING.record_bytes, min_size=1, samples_per_insert=0.0
    )
    self.up, self.shard = True, shard
    self.saving_dir = folder / f"root-{shard}"
    self.manager = trajectory_manager.TrajectoryManager(
      [tables.make_table(spec)],
      portpicker.pick_unused_port(),
      self.saving_dir,
      restored_from,
    )

  def write(self, values):
    writer = writer_lib.ItemWriter(
      routes.DirectRoute(self.manager.address), tables.TRANSITIONS
    )
    assert writer.wait(timeout_s=20)
    records = PACKING.pack({"x": np.array(values)})
    writer.write(records, np.ones(len(values)))
    assert writer.close(timeout_s=20)

  def held(self):
    client = reverb.Client(self.manager.address)
    samples = client.sample(tables.TRANSITIONS, 200, emit_timesteps=False)
    records = np.stack([np.asarray(item.data[0]) for item in samples])
    return set(PACKING.unpack(records)["x"].tolist())

  def make_folder(self, snapshot):
    return shards_snapshot.ShardFolder(
      self.manager.address,
      self.saving_dir,
      snapshot / "replay" / str(self.shard),
      lambda: self.up,
    )


@pytest.fixture
def servers(tmp_path):
  made = [Server(tmp_path, shard) for shard in range(2)]
  yield made
  for server in made:
    server.manager.close()


def save(servers, snapshot, last=None):
  snapshot.mkdir()
  folders = [server.make_folder(snapshot) for server in servers]
  paths = last and [last / "replay" / str(server.shard) for server in servers]
  saver = shards_snapshot.ShardsSaver(folders, lambda: paths)
  while not saver.wait_copied(timeout_s=0.1):
    pass
  saver.finish()
  return [folder.path for folder in folders]


def test_each_shard_is_saved_to_its_own_folder(servers, tmp_path):
  for server, values in zip(servers, ([1, 2, 3], [4, 5]), strict=True):
    server.write(values)
  saved = save(servers, tmp_path / "first")
  for shard, values in enumerate(({1, 2, 3}, {4, 5})):
    restored = Server(tmp_path, shard + 2, saved[shard])
    assert restored.held() == values
    restored.manager.close()


def test_a_shard_that_is_down_has_the_items_of_the_last_snapshot(
  servers, tmp_path
):
  for server in servers:
    server.write([server.shard])
  save(servers, tmp_path / "first")
  servers[0].write([10])
  servers[1].up = False
  saved = save(servers, tmp_path / "second", last=tmp_path / "first")
  shutil.rmtree(tmp_path / "first")  # as the oldest snapshot is deleted
  for shard, values in enumerate(({0, 10}, {1})):
    restored = Server(tmp_path, shard + 2, saved[shard])
    assert restored.held() == values
    restored.manager.close()


def test_a_shard_that_was_never_saved_is_missing(servers, tmp_path, caplog):
  servers[0].write([1])
  servers[1].up = False
  first, second = save(servers, tmp_path / "first")
  assert first.exists()
  assert not second.exists()
  assert "replay shard 1 is down: this snapshot has none of its tables" in (
    caplog.text
  )


def test_a_shard_that_fails_during_a_save_has_the_items_of_the_last_snapshot(
  servers, tmp_path
):
  for server in servers:
    server.write([server.shard])
  save(servers, tmp_path / "first")
  (tmp_path / "second").mkdir()
  # The server is down, but `is_up` returns True twice before it notices.
  servers[1].manager.close()
  ups = iter([True, True])
  failing = (
    servers[1]
    .make_folder(tmp_path / "second")
    ._replace(is_up=lambda: next(ups, False))
  )
  saver = shards_snapshot.ShardsSaver(
    [servers[0].make_folder(tmp_path / "second"), failing],
    lambda: [tmp_path / "first" / "replay" / str(shard) for shard in range(2)],
  )
  saver.finish()
  for shard in range(2):
    restored = Server(
      tmp_path, shard + 2, tmp_path / "second" / "replay" / str(shard)
    )
    assert restored.held() == {shard}
    restored.manager.close()
