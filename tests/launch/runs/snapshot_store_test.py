"""Tests that local and remote snapshots are either whole or absent."""

import logging
import os
import pathlib
import random
import select
import shutil
import subprocess
import sys
import threading
import uuid

import fsspec
import pytest
from fsspec.implementations import memory

from slipway.launch.runs import run_folder, snapshot_store
from tests import polling
from tests.launch import small_disk

ROOT = pathlib.Path(__file__).resolve().parents[3]
DEADLINE_S = 60.0
FILES = ("replay/items", "step", "manifest.json")

# A program that writes and uploads snapshots without a pause. It prints the
# step of each snapshot first.
WRITER = """
import sys
from tests.launch.runs import snapshot_store_test
folder, url, step = sys.argv[1], sys.argv[2], int(sys.argv[3])
store = snapshot_store_test.make(folder, keep=2, url=url)
store.newest()
while True:
  step += 1
  print(step, flush=True)
  snapshot_store_test.write(store, step, best=5 * (step // 5))
"""


def make(folder, keep=9, url=""):
  return snapshot_store.SnapshotStore(run_folder.RunFolder(folder), keep, url)


def content(step):
  """Returns bytes whose length differs from step to step."""
  return random.Random(step).randbytes(1 + 40_009 * (step % 7))


def write(store, *steps, best=None):
  for step in steps:
    with store.writing(is_best=step == best) as path:
      (path / "replay").mkdir()
      (path / "replay" / "items").write_bytes(content(step))
      (path / "step").write_text(str(step))


def check(snapshot, number, step):
  assert snapshot.number == number
  assert (snapshot.path / "step").read_text() == str(step)
  assert (snapshot.path / "replay" / "items").read_bytes() == content(step)


class Location:
  """The local or remote location of a store, as another process sees it."""

  def __init__(self, tmp_path, kind):
    self._tmp_path, self.url = tmp_path, ""
    self.here = tmp_path / "here" / "a-run"
    if kind == "memory":
      self.url = f"memory://{uuid.uuid4().hex}/runs"
    elif kind != "local":
      path = tmp_path / "shared" / "runs"
      self.url = str(path) if kind == "path" else f"file://{path}"
    root = f"{self.url}/a-run" if self.url else str(self.here)
    self.files, path = fsspec.url_to_fs(root)
    self.folder = f"{path}/snapshots"

  def store(self, keep=9):
    return make(self.here, keep, self.url)

  def write(self, store, *steps, best=None):
    for step in steps:
      write(store, step, best=best)
      store.flush(lambda: DEADLINE_S)

  def names(self):
    paths = self.files.ls(self.folder, detail=False)
    return sorted(path.rsplit("/", 1)[-1] for path in paths)

  def damage(self, number, name, how):
    path = f"{self.folder}/{number:06d}/{name}"
    if how is None:
      self.files.rm_file(path)
    else:
      self.files.pipe_file(path, how(self.files.cat_file(path)))

  def newest(self):
    """Returns the newest snapshot, for a remote location on another machine."""
    if not self.url:
      return make(self.here).newest()
    folder = self._tmp_path / uuid.uuid4().hex / "a-run"
    newest = make(folder, url=self.url).newest()
    if newest is not None:  # the only downloaded one
      assert [path.name for path in newest.path.parent.iterdir()] == [
        newest.path.name
      ]
    return newest


@pytest.fixture(params=["local", "file", "path", "memory"])
def location(request, tmp_path):
  return Location(tmp_path, request.param)


@pytest.fixture
def remote(tmp_path):
  return Location(tmp_path, "file")


def read_step(snapshot):
  return int((snapshot.path / "step").read_text())


def cut(data):
  return data[:-1]


def flip(data):
  return data[:-1] + bytes([data[-1] ^ 1])


def test_an_empty_location_has_no_snapshot(location):
  assert location.newest() is None


def test_the_newest_ones_and_the_best_are_kept(location):
  store = location.store(keep=2)
  location.write(store, 10, 20, 30, 40, 50, best=20)
  assert location.names() == ["000002", "000004", "000005"]
  assert location.newest().best == 2
  location.write(store, 60, 70, best=60)
  assert location.names() == ["000006", "000007"]
  check(location.newest(), 7, 70)


def test_another_process_continues_the_numbers_and_keeps_the_best(location):
  location.write(location.store(keep=1), 20, 20, 15, best=15)
  check(location.newest(), 3, 15)
  store = location.store(keep=1)
  store.newest()
  location.write(store, 5, 6)
  check(location.newest(), 5, 6)
  assert location.names() == ["000003", "000005"]


@pytest.mark.parametrize("how", [cut, flip, None])
@pytest.mark.parametrize("name", FILES)
def test_a_damaged_snapshot_is_never_used(location, caplog, how, name):
  location.write(location.store(), 1, 2)
  location.damage(2, name, how)
  with caplog.at_level(logging.WARNING):
    check(location.newest(), 1, 1)
  (message,) = [record.getMessage() for record in caplog.records]
  assert "2 is damaged" in message and name in message and "\n" not in message
  location.write(location.store(), 3)
  check(location.newest(), 3, 3)


def test_a_damaged_snapshot_does_not_replace_a_whole_one(location):
  store = location.store(keep=2)
  location.write(store, 1, 2)
  location.damage(2, "step", cut)
  location.write(store, 3)
  location.damage(3, "step", cut)
  check(location.newest(), 1, 1)
  location.write(store, 4, 5)
  assert location.names() == ["000004", "000005"]


def test_only_the_size_of_a_large_file_is_checked(tmp_path):
  store = make(tmp_path)
  with store.writing() as path, (path / "large").open("wb") as file:
    file.truncate((1 << 26) + 1)  # a sparse file, which takes no space
  assert store.newest().number == 1
  os.truncate(tmp_path / "snapshots/000001/large", 1 << 26)
  assert store.newest() is None


def test_a_failed_snapshot_leaves_no_files(location):
  store = location.store(keep=1)
  location.write(store, 10)
  with pytest.raises(ZeroDivisionError), store.writing() as path:
    (path / "step").write_text("20")
    _ = 1 / 0
  assert location.names() == ["000001"]
  assert store.last == store.newest()
  check(store.last, 1, 10)


@small_disk.needs_root
def test_a_full_disk_costs_only_the_snapshot(tmp_path, remote):
  with small_disk.mounted(tmp_path / "small", megabytes=4) as disk:
    store = make(disk / "a-run", keep=2)
    write(store, 10)
    filler = small_disk.fill(disk)
    with pytest.raises(OSError, match="No space left"):
      write(store, 20)
    assert store.status().unwritten
    check(store.newest(), 1, 10)
    filler.unlink()
    write(store, 20)
    assert not store.status().unwritten
    check(store.newest(), 2, 20)
    remote.write(remote.store(), 10, 20, 30)
    small_disk.fill(disk)
    with pytest.raises(OSError, match="No space left"):
      make(disk / "a-run", url=remote.url).newest()
    check(store.newest(), 2, 20)


def test_two_writers_are_rejected(tmp_path):
  first, second = make(tmp_path), make(tmp_path)
  with first.writing(), pytest.raises(RuntimeError, match="another writer"):
    write(second, 11)
  write(second, 20)
  check(first.newest(), 2, 20)


def run_and_kill(folder, url, step, lines, delay_s):
  """Runs a writer, kills it, and returns the last step that it began to write.

  Args:
    folder: the run's folder.
    url: URL of the remote location.
    step: step after which the writer continues.
    lines: number of printed steps after which the writer is killed.
    delay_s: seconds between the last of these steps and the kill.
  """
  writer = subprocess.Popen(
    [sys.executable, "-c", WRITER, str(folder), url, str(step)],
    cwd=ROOT,
    stdout=subprocess.PIPE,
    text=True,
  )
  try:
    assert writer.stdout is not None
    for _ in range(lines):
      ready, _, _ = select.select([writer.stdout], [], [], DEADLINE_S)
      assert ready, "the writer prints nothing"
      assert writer.stdout.readline(), "the writer has failed"
    assert writer.poll() is None
    select.select([], [], [], delay_s)  # kill at a random point
  finally:
    writer.kill()
    writer.wait()
  printed = writer.stdout.read().splitlines()
  return int(printed[-1]) if printed else step + lines


def test_a_killed_writer_leaves_whole_snapshots(tmp_path, remote):
  rng = random.Random(8)
  step, hidden, halves = 0, 0, 0
  shared = pathlib.Path(remote.folder)
  for kill in range(100):  # mostly 12 suffice
    writing = run_and_kill(
      remote.here, remote.url, step, rng.randint(1, 12), rng.uniform(0, 0.02)
    )
    hidden += bool(list((remote.here / "snapshots").glob(".0*")))
    halves += any(
      not (path / "manifest.json").exists() for path in shared.glob("0*")
    )
    uploaded = remote.newest()
    newest = make(remote.here).newest()
    if newest is None:
      assert writing == 1 and uploaded is None
      continue
    step = read_step(newest)
    assert writing - 1 <= step <= writing
    check(newest, newest.number, step)
    if uploaded is not None:
      assert uploaded.number <= newest.number
      check(uploaded, uploaded.number, read_step(uploaded))
    if hidden and halves and kill > 10:
      break
  assert hidden and halves, "no kill hit a writer half-way"
  store = remote.store(keep=2)
  remote.write(store, step + 1, step + 2, best=step + 1)
  last = [f"{store.last.number - 1:06d}", f"{store.last.number:06d}"]
  assert remote.names() == last
  local = (path.name for path in (remote.here / "snapshots").iterdir())
  assert sorted(local) == last


class GatedFileSystem(memory.MemoryFileSystem):
  """A slow remote location: each file waits until the test allows the write."""

  protocol = "gated"
  store, pseudo_dirs = {}, [""]
  begun, may_continue = threading.Event(), threading.Event()

  def put_file(self, lpath, rpath, **kwargs):
    self.begun.set()
    assert self.may_continue.wait(DEADLINE_S)
    super().put_file(lpath, rpath, **kwargs)


fsspec.register_implementation("gated", GatedFileSystem, clobber=True)


def test_a_slow_location_gets_the_best_and_the_newest(tmp_path, caplog):
  store = make(tmp_path / "a-run", keep=1, url="gated://runs")
  write(store, 1)
  assert GatedFileSystem.begun.wait(DEADLINE_S)
  with caplog.at_level(logging.WARNING):
    store.flush(lambda: 0.0)
  assert "was not uploaded" in caplog.text
  write(store, 2, 3, 4, 5, best=3)
  # The run keeps one snapshot, and those that wait for their upload. Number 4
  # waited only until 5 was written.
  snapshots = tmp_path / "a-run" / "snapshots"
  assert sorted(path.name for path in snapshots.iterdir()) == [
    *("000001", "000003", "000005")
  ]
  GatedFileSystem.may_continue.set()
  store.flush(lambda: DEADLINE_S)
  assert store.status().uploaded == 5
  files, path = fsspec.url_to_fs("gated://runs/a-run/snapshots")
  assert sorted(p.rsplit("/", 1)[-1] for p in files.ls(path, detail=False)) == [
    *("000003", "000005")
  ]
  write(store, 6)
  assert sorted(path.name for path in snapshots.iterdir()) == [
    *("000003", "000006")
  ]


def test_a_failed_upload_is_counted_and_the_best_is_retried(remote, caplog):
  blocker = pathlib.Path(remote.folder).parent
  blocker.parent.mkdir(parents=True)
  blocker.write_text("in the way")
  store = remote.store()
  with caplog.at_level(logging.ERROR):
    write(store, 1, best=1)
    polling.wait_until(lambda: store.status().upload_failures)
  (message,) = [record.getMessage() for record in caplog.records]
  assert "snapshot 1 could not be uploaded" in message and "\n" not in message
  status = store.status()
  assert status.written == status.upload_failures == 1
  assert status.uploaded is None
  blocker.unlink()
  remote.write(store, 2)
  assert remote.names() == ["000001", "000002"]
  assert remote.newest().best == 1
  assert store.status().uploaded == 2


def test_a_failed_upload_of_the_last_snapshot_is_repeated(remote, caplog):
  blocker = pathlib.Path(remote.folder).parent
  blocker.parent.mkdir(parents=True)
  blocker.write_text("in the way")
  store = remote.store()
  write(store, 1)

  def get_rest_s():
    if blocker.is_file() and store.status().upload_failures >= 2:
      blocker.unlink()
    return DEADLINE_S

  store.flush(get_rest_s)
  assert remote.names() == ["000001"]
  assert store.status().uploaded == 1
  assert "was not uploaded" not in caplog.text


def test_snapshots_of_a_killed_process_are_uploaded_later(remote):
  write(make(remote.here), 1, 2, best=2)  # without a remote location
  store = remote.store()
  store.newest()
  store.upload_last()
  store.flush(lambda: DEADLINE_S)
  assert remote.names() == ["000002"]
  check(remote.newest(), 2, 2)


def test_a_best_snapshot_of_a_killed_process_is_uploaded_later(remote):
  write(make(remote.here), 1, 2, 3, best=1)  # without a remote location
  store = remote.store()
  store.newest()
  store.upload_last()
  store.flush(lambda: DEADLINE_S)
  assert remote.names() == ["000001", "000003"]
  assert remote.newest().best == 1


def test_a_best_snapshot_does_not_replace_a_newer_one(remote, tmp_path):
  remote.write(remote.store(), 10, best=10)
  there = make(tmp_path / "there" / "a-run", url=remote.url)
  there.newest()
  remote.write(there, 20, 30, best=20)
  here = remote.store()
  here.newest()
  here.upload_last()
  here.flush(lambda: DEADLINE_S)
  assert remote.newest().best == 2


def test_a_run_continues_on_another_machine_and_back(location, tmp_path):
  location.write(location.store(), 10, 20)
  there = make(
    tmp_path / "there" / "a-run" if location.url else location.here,
    url=location.url,
  )
  check(there.newest(), 2, 20)
  location.write(there, 30)
  here = location.store()
  check(here.newest(), 3, 30)
  assert here.last == here.newest()


def test_the_newest_of_both_locations_is_found(remote):
  local = make(remote.here)
  write(local, 10)
  check(remote.store().newest(), 1, 10)
  other = make(remote.here.parents[1] / "other" / "a-run", url=remote.url)
  remote.write(other, 11, 21)
  check(local.newest(), 1, 10)
  check(remote.store().newest(), 2, 21)
  # A damaged local snapshot is replaced by the remote one.
  (remote.here / "snapshots/000002/step").write_text("2")
  check(remote.store().newest(), 2, 21)


def test_a_snapshot_is_downloaded_once(remote, tmp_path):
  remote.write(remote.store(), 10)
  first = make(tmp_path / "there" / "a-run", url=remote.url).newest()
  (first.path / "mark").write_text("")
  again = make(tmp_path / "there" / "a-run", url=remote.url).newest()
  assert again == first and (first.path / "mark").exists()


def test_a_snapshot_is_uploaded_once(remote):
  remote.write(remote.store(), 10)
  copied = pathlib.Path(remote.folder, "000001", "step")
  before = copied.stat().st_mtime_ns, copied.stat().st_ino
  store = remote.store()
  store.newest()
  store.upload_last()
  store.flush(lambda: DEADLINE_S)
  assert (copied.stat().st_mtime_ns, copied.stat().st_ino) == before


def test_another_snapshot_of_the_same_number_is_replaced(remote):
  remote.write(remote.store(), 10)
  shutil.rmtree(remote.here)
  remote.write(remote.store(), 11)
  check(remote.newest(), 1, 11)


def test_a_remote_location_that_cannot_be_read(tmp_path, caplog):
  (tmp_path / "file").write_text("")  # a file in place of the folder
  store = make(tmp_path / "a-run", url=f"file://{tmp_path}/file")
  with pytest.raises(OSError, match="has no snapshot") as error:
    store.newest()
  assert str(tmp_path) in str(error.value) and "\n" not in str(error.value)
  write(make(tmp_path / "a-run"), 10)
  with caplog.at_level(logging.WARNING):
    check(store.newest(), 1, 10)
  (record,) = caplog.records
  assert "cannot be read" in record.getMessage()
  # A resume would otherwise write snapshots next to newer ones there.
  with pytest.raises(OSError, match=r"newer .* than the local one, 1: "):
    store.newest(local_suffices=False)


def test_a_new_run_does_not_use_another_runs_snapshots(location):
  store, config = location.store(), location.here / "config.json"
  store.check_remote(may_exist=False)
  location.here.mkdir(parents=True, exist_ok=True)
  config.write_text("{}")
  store.publish_config(clear=False)
  if not location.url:
    store.check_remote(may_exist=False)
    return
  with pytest.raises(ValueError, match="has a run 'a-run' already") as error:
    store.check_remote(may_exist=False)
  assert location.url in str(error.value) and "\n" not in str(error.value)
  location.write(store, 10)
  store.check_remote(may_exist=True)
  other = make(location.here.with_name("another"), url=location.url)
  other.check_remote(may_exist=False)
  store.publish_config(clear=True)
  assert location.newest() is None
  (left,) = location.files.find(location.folder.rpartition("/")[0])
  assert left.endswith("/config.json")


def test_a_new_run_keeps_other_files_at_its_url(remote):
  store, config = remote.store(), remote.here / "config.json"
  remote.here.mkdir(parents=True, exist_ok=True)
  config.write_text("{}")
  own = pathlib.Path(remote.folder).parent / "own" / "file"
  own.parent.mkdir(parents=True)
  own.touch()
  store.publish_config(clear=True)
  assert own.exists()
  assert (own.parent.parent / "config.json").exists()


def test_a_check_leaves_no_file(remote):
  remote.store().check_remote(may_exist=False)
  assert not list(pathlib.Path(remote.folder).parent.iterdir())


@pytest.mark.parametrize(
  "url, cause",
  [
    ("foo://a/b", "Protocol not known"),
    ("s3://bucket/runs", "s3fs"),
    # Removing a snapshot there would remove those of other folders, too.
    ("memory://runs*/a", r"'\*', which fsspec takes for a pattern"),
    ("/shared/[a]?", r"'\?' and '\['"),
  ],
)
def test_a_rejected_url(tmp_path, url, cause):
  with pytest.raises(ValueError, match=cause) as error:
    make(tmp_path, url=url)
  assert f"config.snapshot.url={url!r}" in str(error.value)
  assert "\n" not in str(error.value)


def test_a_remote_location_that_cannot_be_written(tmp_path):
  (tmp_path / "file").write_text("")
  for url in (f"file://{tmp_path}/file/runs", "/proc/self/runs"):
    with pytest.raises(ValueError, match="cannot be written") as error:
      make(tmp_path / "a-run", url=url).check_remote(may_exist=True)
    assert repr(url) in str(error.value) and "\n" not in str(error.value)


# The run's copies are in its folder, in a folder of it, or around its folder.
@pytest.mark.parametrize(
  ("url", "run"),
  [("runs", "runs/a"), ("runs/a", "runs/a"), ("runs", "runs/a/a")],
)
def test_a_url_that_overlaps_the_runs_folder(tmp_path, url, run):
  run, url = tmp_path / run, f"file://{tmp_path / url}"
  run.mkdir(parents=True)
  with pytest.raises(ValueError, match="overlaps") as error:
    make(run, url=url).check_remote(may_exist=True)
  assert repr(url) in str(error.value) and "\n" not in str(error.value)
  assert not list(run.iterdir())
