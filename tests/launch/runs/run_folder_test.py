"""Tests of the run folder: names, one-line errors, and saved configs."""

import contextlib
import json
import os
from concurrent import futures

import ml_collections
import pytest

from slipway.configs import dqn
from slipway.launch.runs import run_folder


def config_of(**fields):
  return ml_collections.ConfigDict(fields)


def make_run(run_dir, name="a-run", overwrite=False):
  folder = run_folder.RunFolder.create(run_dir, name, overwrite)
  folder.write_config(config_of(seed=1))
  return folder


def error_line_of(call, *args):
  with pytest.raises(ValueError) as caught:
    call(*args)
  assert "\n" not in str(caught.value)
  return str(caught.value)


def test_paths(tmp_path):
  folder = run_folder.RunFolder.create(tmp_path / "a" / "b", "x.1_y-2", False)
  assert folder.path == tmp_path / "a" / "b" / "x.1_y-2"
  assert folder.name == "x.1_y-2"
  made = sorted(entry.name for entry in folder.path.iterdir())
  assert made == ["events", "logs", "snapshots", "videos"]
  files = (
    (folder.config, "config.json"),
    (folder.best, "best.npz"),
    (folder.curves_csv, "curves.csv"),
    (folder.curves_png, "curves.png"),
    (folder.summary, "summary.json"),
  )
  for path, relative in files:
    assert path == folder.path / relative


@pytest.mark.parametrize(
  "name", ["", ".", "..", "a/b", "../a", "a b", "a\n", "ä", "a:1"]
)
def test_names_that_are_rejected(tmp_path, name):
  message = error_line_of(run_folder.RunFolder.create, tmp_path, name, True)
  assert repr(name) in message
  assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("parent", ["a[1]", "*", "a?", "a\\b", "a::b"])
def test_paths_that_are_rejected(tmp_path, parent):
  run_dir = tmp_path / parent
  message = error_line_of(run_folder.RunFolder.create, run_dir, "a", False)
  assert repr(str(run_dir / "a")) in message
  assert not list(tmp_path.iterdir())


def make_file(path):
  path.write_text("kept")


def make_folder(path):
  path.mkdir()
  (path / "kept").write_text("kept")


def make_other_folder_with_a_config(path):
  path.mkdir()
  (path / "config.json").write_text("{}")
  (path / "weights").write_text("kept")


def make_saved(path):
  run = run_folder.RunFolder.create(path.parent, path.name, overwrite=False)
  (run.snapshots / "000001").mkdir()


def make_link(path):
  path.symlink_to(make_run(path.parent, "elsewhere").path)


@pytest.mark.parametrize(
  ("make", "overwrite", "words"),
  [
    (lambda path: make_run(path.parent), False, "give --overwrite"),
    (make_file, False, "exists"),
    (make_file, True, "is no run"),
    (make_folder, True, "is no run"),
    (make_folder, False, "is no run"),
    (make_other_folder_with_a_config, True, "is no run"),
    (make_saved, True, "is no run"),
    (make_link, True, "is no run"),
  ],
)
def test_an_existing_path_is_kept(tmp_path, make, overwrite, words):
  make(tmp_path / "a-run")
  before = sorted(tmp_path.rglob("*"))
  message = error_line_of(
    run_folder.RunFolder.create, tmp_path, "a-run", overwrite
  )
  assert words in message
  assert repr(str(tmp_path / "a-run")) in message
  assert sorted(tmp_path.rglob("*")) == before


def test_overwriting_deletes_the_old_run(tmp_path):
  old = make_run(tmp_path)
  (old.snapshots / "old").write_text("old")
  new = run_folder.RunFolder.create(tmp_path, "a-run", overwrite=True)
  assert not list(new.snapshots.iterdir())
  assert not new.is_run()


@pytest.mark.parametrize("is_writing", [False, True])
def test_a_run_that_was_killed_before_its_config_is_replaced(
  tmp_path, is_writing
):
  old = run_folder.RunFolder.create(tmp_path, "a-run", overwrite=False)
  if is_writing:
    (old.path / ".config.json.1234").write_text('{"seed"')
  assert "give --overwrite" in error_line_of(
    run_folder.RunFolder.create, tmp_path, "a-run", False
  )
  new = make_run(tmp_path, overwrite=True)
  assert new.read_config() == config_of(seed=1)
  assert not list(new.path.glob(".*"))


def test_a_run_dir_that_is_a_file(tmp_path):
  make_file(tmp_path / "runs")
  for run_dir in (tmp_path / "runs", tmp_path / "runs" / "below"):
    message = error_line_of(run_folder.RunFolder.create, run_dir, "a", False)
    assert repr(str(run_dir)) in message


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="needs /proc")
def test_a_run_dir_that_cannot_be_written():
  # Not even root can make files there.
  message = error_line_of(run_folder.RunFolder.create, "/proc/self", "a", False)
  assert "'/proc/self'" in message


def test_too_little_space_keeps_the_old_run(tmp_path, monkeypatch):
  old = make_run(tmp_path)
  monkeypatch.setattr(run_folder, "MIN_FREE_BYTES", 10**18)
  message = error_line_of(run_folder.RunFolder.create, tmp_path, "a-run", True)
  assert "MB free, under the 1,000,000,000,000 MB" in message
  assert old.is_run()
  new = tmp_path / "new" / "runs"
  error_line_of(run_folder.RunFolder.create, new, "a-run", False)
  with (
    pytest.raises(ValueError, match="MB free"),
    run_folder.reserved(new, "a-run"),
  ):
    pytest.fail("a folder is reserved on a full disk")
  assert not new.parent.exists()


CONFIGS = [
  dqn.get_config(),
  dqn.get_config("pong"),
  config_of(sizes=(64, (3, 4)), empty=(), limit=float("inf")),
  config_of(low=float("-inf"), rate=1e-4, none=None, on=True, count=7),
  config_of(
    listed=[1, [2], (3,)], inner=config_of(name="ä", maps=("SF", "HG"))
  ),
]


@pytest.mark.parametrize("config", CONFIGS)
def test_a_read_config_equals_the_written_one(tmp_path, config):
  folder = make_run(tmp_path)
  folder.write_config(config)
  back = folder.read_config()
  assert back == config
  # For Python, 1, 1.0 and True are equal; their texts differ.
  assert repr(back.to_dict()) == repr(config.to_dict())
  assert [entry.name for entry in folder.path.glob("*config*")] == [
    "config.json"
  ]


def test_the_config_is_strict_json(tmp_path):
  def reject(constant):
    raise AssertionError(f"{constant} is not JSON")

  folder = make_run(tmp_path)
  folder.write_config(CONFIGS[2])
  tree = json.loads(folder.config.read_text(), parse_constant=reject)
  assert tree["sizes"] == [64, [3, 4]]


def test_a_config_that_json_cannot_hold(tmp_path):
  folder = make_run(tmp_path)
  message = error_line_of(
    folder.write_config, config_of(inner=config_of(x=b"1"))
  )
  assert "config.inner.x is b'1'" in message
  assert folder.read_config() == config_of(seed=1)


@pytest.mark.parametrize("text", ["", "{", "3", "[1]"])
def test_a_damaged_config(tmp_path, text):
  folder = make_run(tmp_path)
  folder.config.write_text(text)
  assert repr(str(folder.config)) in error_line_of(folder.read_config)


@pytest.mark.parametrize(
  ("given_path", "nearest"),
  [
    ("runs/carpole", "runs/cartpole"),
    ("runs/lunar", "runs/lunarlander"),
    ("runs/cartpole/logs", "runs/cartpole"),
    ("runs/cartpole/curves.csv", "runs/cartpole"),
    ("runs", "runs/lunarlander"),
    ("runs/zzz", "runs/lunarlander"),
  ],
)
def test_the_nearest_run(tmp_path, given_path, nearest):
  for mtime_s, name in enumerate(("cartpole", "lunarlander")):
    folder = make_run(tmp_path / "runs", name)
    os.utime(folder.config, (mtime_s, mtime_s))
  message = error_line_of(run_folder.RunFolder.open, tmp_path / given_path)
  assert repr(str(tmp_path / given_path)) in message
  assert repr(str(tmp_path / nearest)) in message
  is_similar = given_path not in ("runs", "runs/zzz")
  assert ("did you mean" in message) == is_similar


def test_a_run_is_found_in_the_folder_of_runs(tmp_path, monkeypatch):
  make_run(tmp_path / "runs", "first")
  monkeypatch.chdir(tmp_path)
  message = error_line_of(run_folder.RunFolder.open, "first")
  assert "'first'" in message and "did you mean 'runs/first'?" in message


def test_opening_a_run(tmp_path):
  assert "no run next to it" in error_line_of(
    run_folder.RunFolder.open, tmp_path / "a"
  )
  path = make_run(tmp_path).path
  assert run_folder.RunFolder.open(path).read_config() == config_of(seed=1)


def test_folders_that_are_reserved_at_once_have_different_names(tmp_path):
  with contextlib.ExitStack() as stack, futures.ThreadPoolExecutor(8) as pool:
    reserved = [run_folder.reserved(tmp_path, "a") for _ in range(8)]
    paths = list(pool.map(stack.enter_context, reserved))
    assert {path.name for path in paths} == {
      *("a", "a-2", "a-3", "a-4", "a-5", "a-6", "a-7", "a-8"),
    }
    run = make_run(tmp_path, "a-2")
  assert list(tmp_path.iterdir()) == [run.path]
