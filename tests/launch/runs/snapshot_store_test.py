"""SnapshotStore: another machine's folder gets what is whole, or nothing."""

import logging
import pathlib
import random
import select
import subprocess
import sys
import uuid

import fsspec
import ml_collections
import pytest

from launch.runs import run_folder, snapshot_store, snapshots

ROOT = pathlib.Path(__file__).resolve().parents[3]
DEADLINE_S = 60.0
FILES = ("replay/items", "step", "manifest.json")

# Uploads snapshots without a pause, and says which step it is about to.
UPLOADER = """
import sys
from launch.runs import snapshot_store, snapshots
from tests.launch.runs import snapshot_store_test
folder, url, step = sys.argv[1], sys.argv[2], int(sys.argv[3])
kept = snapshots.Snapshots(folder, keep=2)
store = snapshot_store.SnapshotStore(url, "a-run")
while True:
  step += 1
  snapshot = snapshot_store_test.write(kept, step)
  print(step, flush=True)
  store.upload(snapshot)
  store.prune(keep=2)
"""


def content(step):
  """Bytes of a length that differs from step to step."""
  return random.Random(step).randbytes(1 + 40_009 * (step % 7))


def write(kept, step):
  with kept.writing(step) as path:
    (path / "replay").mkdir()
    (path / "replay" / "items").write_bytes(content(step))
    (path / "step").write_text(str(step))
  return kept.written


def check(snapshot):
  assert (snapshot.path / "step").read_text() == str(snapshot.step)
  items = (snapshot.path / "replay" / "items").read_bytes()
  assert items == content(snapshot.step)
  assert snapshots.newest_of(snapshot.path.parent) == snapshot


@pytest.fixture(params=["file", "memory", "path"])
def url(request, tmp_path):
  """Of a store of each kind; the last one is in this process only."""
  if request.param == "memory":
    return f"memory://{uuid.uuid4().hex}/runs"
  path = tmp_path / "shared" / "runs"
  return str(path) if request.param == "path" else f"file://{path}"


@pytest.fixture
def here(tmp_path):
  """Snapshots of the machine that writes them."""
  return snapshots.Snapshots(tmp_path / "here", keep=9)


@pytest.fixture
def there(tmp_path):
  """The folder of another one."""
  return tmp_path / "there"


def make(url):
  return snapshot_store.SnapshotStore(url, "a-run")


def names(url):
  files, root = fsspec.url_to_fs(url)
  found = files.ls(f"{root}/a-run/snapshots", detail=False)
  return sorted(path.rsplit("/", 1)[-1] for path in found)


def test_another_machine_gets_the_newest(url, here, there):
  store = make(url)
  assert store.fetch_newer(there, above=0) is None
  for step in (10, 20):
    store.upload(write(here, step))
  fetched = make(url).fetch_newer(there, above=0)
  assert fetched == (there / "000002", 2, 20)
  check(fetched)
  assert make(url).fetch_newer(there, above=2) is None
  # It goes on there, and the first machine takes up what it has missed.
  store.upload(write(snapshots.Snapshots(there, keep=9), 30))
  check(make(url).fetch_newer(here.newest().path.parent, above=2))
  assert here.newest()[1:] == (3, 30)


def test_what_two_processes_fetch_at_once_is_there_once(url, here, there):
  make(url).upload(write(here, 10))
  first = make(url).fetch_newer(there, above=0)
  (first.path / "mark").write_text("of the first")
  assert make(url).fetch_newer(there, above=0) == first
  assert (first.path / "mark").exists()


def test_what_is_there_is_not_copied_again(tmp_path, here):
  store = make(f"file://{tmp_path}/shared")
  snapshot = write(here, 10)
  store.upload(snapshot)
  copied = tmp_path / "shared" / "a-run" / "snapshots" / "000001" / "step"
  before = copied.stat().st_mtime_ns, copied.stat().st_ino
  store.upload(snapshot)
  assert (copied.stat().st_mtime_ns, copied.stat().st_ino) == before


def test_another_one_of_the_same_number_is_replaced(url, here, there, tmp_path):
  store = make(url)
  store.upload(write(here, 10))
  store.upload(write(snapshots.Snapshots(tmp_path / "other", keep=1), 11))
  assert names(url) == ["000001"]
  check(store.fetch_newer(there, above=0))
  assert snapshots.newest_of(there).step == 11


def test_the_newest_ones_and_the_best_are_kept(url, here):
  store = make(url)
  for step in (10, 20, 30, 40, 50):
    store.upload(write(here, step))
    if step == 20:
      store.mark_best(2)
    store.prune(keep=2)
  assert names(url) == ["000002", "000004", "000005", "best"]
  store.mark_best(5)
  store.upload(write(here, 60))
  store.prune(keep=2)
  assert names(url) == ["000005", "000006", "best"]


def test_one_that_is_half_written_is_not_used_and_goes(url, here, there):
  store = make(url)
  for step in (10, 20, 30):
    store.upload(write(here, step))
  files, root = fsspec.url_to_fs(url)
  for number in ("000002", "000003"):
    files.rm_file(f"{root}/a-run/snapshots/{number}/manifest.json")
  check(store.fetch_newer(there, above=0))
  assert snapshots.newest_of(there)[1:] == (1, 10)
  # The one above may be on its way.
  store.prune(keep=1)
  assert names(url) == ["000001", "000002", "000003"]
  store.upload(write(here, 40))
  store.prune(keep=2)
  assert names(url) == ["000001", "000004"]


def cut(data):
  return data[:-1]


def flip(data):
  return data[:-1] + bytes([data[-1] ^ 1])


@pytest.mark.parametrize("damage", [cut, flip, None])
@pytest.mark.parametrize("name", FILES)
def test_a_damaged_one_is_passed_over(url, here, there, caplog, damage, name):
  store = make(url)
  for step in (1, 2):
    store.upload(write(here, step))
  files, root = fsspec.url_to_fs(url)
  path = f"{root}/a-run/snapshots/000002/{name}"
  if damage is None:
    files.rm_file(path)
  else:
    files.pipe_file(path, damage(files.cat_file(path)))
  with caplog.at_level(logging.WARNING):
    check(store.fetch_newer(there, above=0))
  assert snapshots.newest_of(there)[1:] == (1, 1)
  assert sorted(path.name for path in there.iterdir()) == ["000001"]
  messages = [record.getMessage() for record in caplog.records]
  if name != "manifest.json":  # without one, it has never been whole
    (message,) = messages
    assert "000002" in message and "\n" not in message
  # Nor is there anything newer than what is here already.
  assert store.fetch_newer(there, above=1) is None
  # The next life of the run writes its own in that place.
  again = snapshots.Snapshots(there, keep=9)
  store.upload(write(again, 3))
  check(store.fetch_newer(here.newest().path.parents[1] / "third", above=0))


def test_a_new_run_takes_nothing_of_another(url, here, tmp_path):
  store = make(url)
  store.check_writable()
  store.check_new(overwrite=False)
  config = tmp_path / "config.json"
  config.write_text("{}")
  store.put_config(config)
  with pytest.raises(ValueError, match="has a run 'a-run' already") as error:
    store.check_new(overwrite=False)
  assert url in str(error.value) and "\n" not in str(error.value)
  store.upload(write(here, 10))
  store.check_new(overwrite=True)
  other = snapshot_store.SnapshotStore(url, "another")
  other.put_config(config)
  store.clear()
  store.check_new(overwrite=False)
  assert store.fetch_newer(tmp_path / "there", above=0) is None
  with pytest.raises(ValueError, match="'another'"):
    other.check_new(overwrite=False)


def test_a_probe_leaves_nothing(tmp_path):
  make(f"file://{tmp_path}/shared").check_writable()
  assert not list((tmp_path / "shared" / "a-run").iterdir())


@pytest.mark.parametrize(
  "url, says",
  [("foo://a/b", "Protocol not known"), ("s3://bucket/runs", "s3fs")],
)
def test_an_url_of_no_use(url, says):
  with pytest.raises(ValueError, match=says) as error:
    make(url)
  assert f"config.snapshot.url={url!r}" in str(error.value)
  assert "\n" not in str(error.value)


def test_a_store_nobody_may_write_to(tmp_path):
  (tmp_path / "file").write_text("")
  for url in (f"file://{tmp_path}/file/runs", "/proc/self/runs"):
    with pytest.raises(ValueError, match="cannot be written") as error:
      make(url).check_writable()
    assert repr(url) in str(error.value) and "\n" not in str(error.value)


def config_of(url):
  return ml_collections.ConfigDict({"snapshot": {"url": url, "keep": 2}})


@pytest.fixture
def folder(tmp_path):
  return run_folder.RunFolder.create(tmp_path / "runs", "a-run", False)


def test_the_newest_wherever_it_is(url, folder, here):
  newest_of = snapshot_store.newest_of
  assert newest_of(config_of(""), folder) is None
  assert newest_of(config_of(url), folder) is None
  store = make(url)
  store.upload(write(here, 10))
  assert newest_of(config_of(""), folder) is None
  check(newest_of(config_of(url), folder))
  kept = snapshots.Snapshots(folder.snapshots, keep=9)
  local = write(kept, 20)
  assert newest_of(config_of(url), folder) == local
  for step in (30, 40):
    store.upload(write(here, step))
  assert newest_of(config_of(url), folder)[1:] == (3, 40)
  check(kept.newest())


def test_a_store_that_is_away(folder, tmp_path, caplog):
  (tmp_path / "file").write_text("")  # where its folder should be
  config = config_of(f"file://{tmp_path}/file")
  with pytest.raises(OSError, match="has no snapshot") as error:
    snapshot_store.newest_of(config, folder)
  assert str(tmp_path) in str(error.value) and "\n" not in str(error.value)
  local = write(snapshots.Snapshots(folder.snapshots, keep=9), 10)
  with caplog.at_level(logging.WARNING):
    assert snapshot_store.newest_of(config, folder) == local
  (record,) = caplog.records
  assert "cannot be read" in record.getMessage()


def kill_while_uploading(folder, url, step, lines, delay_s):
  """Runs an uploader and kills it; returns the last step that it began.

  Args:
    folder: of the snapshots.
    url: of the store.
    step: after which it goes on.
    lines: it is killed some time after it has said so many steps.
    delay_s: that time.
  """
  uploader = subprocess.Popen(
    [sys.executable, "-c", UPLOADER, str(folder), url, str(step)],
    cwd=ROOT,
    stdout=subprocess.PIPE,
    text=True,
  )
  try:
    assert uploader.stdout is not None
    for _ in range(lines):
      ready, _, _ = select.select([uploader.stdout], [], [], DEADLINE_S)
      assert ready, "the uploader says nothing"
      assert uploader.stdout.readline(), "the uploader has failed"
    assert uploader.poll() is None
    select.select([], [], [], delay_s)  # the point is random, not awaited
  finally:
    uploader.kill()
    uploader.wait()
  said = uploader.stdout.read().splitlines()
  return int(said[-1]) if said else step + lines


def test_an_uploader_killed_at_any_point_leaves_a_whole_one(tmp_path):
  rng = random.Random(8)
  url = f"file://{tmp_path}/shared"
  folder = tmp_path / "shared" / "a-run" / "snapshots"
  step, halves = 0, 0
  for kill in range(100):  # mostly 12; until one has met an uploader half-way
    uploading = kill_while_uploading(
      tmp_path / "here",
      *(url, step, rng.randint(1, 6), rng.uniform(0.0, 0.01)),
    )
    halves += any(
      not (path / "manifest.json").exists() for path in folder.glob("0*")
    )
    fetched = make(url).fetch_newer(tmp_path / f"there-{kill}", above=0)
    if fetched is None:
      assert uploading == 1
    else:
      check(fetched)
      # That one, or the one before; what was written last may not be said yet.
      assert uploading - 1 <= fetched.step <= uploading + 1
    newest = snapshots.newest_of(tmp_path / "here")
    step = newest.step if newest else 0
    if halves and kill > 10:
      break
  assert halves, "no kill met an uploader half-way"
  store = make(url)
  store.upload(write(snapshots.Snapshots(tmp_path / "here", keep=2), step + 1))
  store.prune(keep=2)
  assert len(list(folder.iterdir())) == 2
  assert all((path / "manifest.json").exists() for path in folder.iterdir())
