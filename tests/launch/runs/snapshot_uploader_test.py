"""SnapshotUploader: copies the newest and the best, and no error stops it."""

import logging
import threading

import pytest

from launch.runs import snapshot_store, snapshot_uploader, snapshots

KEEP = 2
TIMEOUT_S = 30.0


class GatedStore(snapshot_store.SnapshotStore):
  """A store on a disk so slow that each copy waits until it may begin."""

  def __init__(self, url, run):
    super().__init__(url, run)
    self.begun, self.may_go_on = threading.Event(), threading.Event()

  def upload(self, snapshot):
    self.begun.set()
    assert self.may_go_on.wait(TIMEOUT_S)
    super().upload(snapshot)


@pytest.fixture
def folder(tmp_path):
  """Of the store's snapshots."""
  return tmp_path / "shared" / "a-run" / "snapshots"


@pytest.fixture
def store(tmp_path):
  return GatedStore(f"file://{tmp_path}/shared", "a-run")


@pytest.fixture
def uploader(store):
  return snapshot_uploader.SnapshotUploader(store, KEEP)


@pytest.fixture
def kept(tmp_path, uploader):
  return snapshots.Snapshots(tmp_path / "here", 1, uploader.in_use)


def write(kept, step):
  with kept.writing(step) as path:
    (path / "step").write_text(str(step))
  return kept.written


def names(folder):
  return sorted(path.name for path in folder.iterdir())


def test_each_one_is_copied_where_there_is_time(store, uploader, kept, folder):
  store.may_go_on.set()
  for step in range(1, 6):
    uploader.offer(write(kept, step), best=step == 2)
    assert uploader.wait(TIMEOUT_S)
    assert uploader.uploaded == step
  assert names(folder) == ["000002", "000004", "000005", "best"]
  assert uploader.failures == 0
  assert not uploader.in_use()


def test_a_slow_store_gets_the_best_and_the_newest(
  store, uploader, kept, folder, tmp_path
):
  uploader.offer(write(kept, 1), best=False)
  assert store.begun.wait(TIMEOUT_S)
  assert not uploader.wait(timeout_s=0.0)
  for step in range(2, 6):
    uploader.offer(write(kept, step), best=step == 3)
  # The run keeps one, but what is to be copied stays that long; 4 was, too,
  # until 5 was written.
  assert uploader.in_use() == {1, 3, 5}
  assert names(tmp_path / "here") == ["000001", "000003", "000004", "000005"]
  store.may_go_on.set()
  assert uploader.wait(TIMEOUT_S)
  assert names(folder) == ["000003", "000005", "best"]
  write(kept, 6)
  assert names(tmp_path / "here") == ["000006"]


def test_a_store_that_fails_is_counted(store, uploader, kept, folder, caplog):
  store.may_go_on.set()
  folder.parent.parent.mkdir()
  folder.parent.write_text("in the way")
  with caplog.at_level(logging.ERROR):
    uploader.offer(write(kept, 1), best=True)
    assert uploader.wait(TIMEOUT_S)
  (record,) = caplog.records
  message = record.getMessage()
  assert "snapshot 1 could not be uploaded" in message and "\n" not in message
  assert uploader.uploaded is None
  assert uploader.failures == 1
  folder.parent.unlink()
  # The best one is tried again, too.
  uploader.offer(write(kept, 2), best=False)
  assert uploader.wait(TIMEOUT_S)
  assert names(folder) == ["000001", "000002", "best"]
  assert (folder / "best").read_text() == "1"
  assert uploader.uploaded == 2


def test_without_a_store_nothing_is_done(kept):
  uploader = snapshot_uploader.SnapshotUploader(None, KEEP)
  uploader.offer(write(kept, 1), best=True)
  assert uploader.wait(timeout_s=0.0)
  assert not uploader.in_use()
