"""Tests of a sweep's folder: overwriting it, and errors of its runs."""

import shutil
import threading

import pytest

from slipway.configs import dqn
from slipway.launch.runs import manifest, run_folder, run_lock, snapshot_store
from slipway.launch.sweeps import processes, sweep_folder
from tests.launch.sweeps import given


def test_an_overwritten_sweep_is_deleted_once_its_runs_have_ended(tmp_path):
  old = sweep_folder.SweepFolder.create(str(tmp_path), "swept", False)
  old.write_plan(given.make_plan([{}], seeds=[1]))
  run = run_folder.RunFolder.create(old.path, "0-1", overwrite=False)
  run.config.write_text("{}")
  arguments = (str(tmp_path), "swept", True)
  overwrite = threading.Thread(
    target=sweep_folder.SweepFolder.create, args=arguments
  )
  with run_lock.held(run):
    overwrite.start()
    overwrite.join(timeout=1.0)
    assert overwrite.is_alive()
    assert run.is_run()
  overwrite.join(timeout=60.0)
  assert not overwrite.is_alive()
  assert not any(old.path.iterdir())


def test_a_run_continues_from_complete_snapshots_only(tmp_path):
  """A full disk, or a kill, may have left a part of one."""
  (run,) = sweep_folder.SweepFolder(tmp_path).list_runs(0, [1])
  made = run_folder.RunFolder.create(tmp_path, run.folder.name, overwrite=False)
  made.config.write_text("{}")
  snapshot = made.snapshots / "000001"
  snapshot.mkdir()
  assert not run.can_resume()
  manifest.write(snapshot)
  assert run.can_resume()


def test_an_error_is_of_the_last_process(tmp_path):
  folder = sweep_folder.SweepFolder(tmp_path)
  (run,) = folder.list_runs(0, [1])
  run.log.write_text("train: an older error\n")
  start = run.log.stat().st_size
  assert run.read_error(start) == "no output"
  with run.log.open("a") as log:
    log.write("train: the error\nsomething else\n")
  assert run.read_error(start) == "the error"


def test_a_run_of_a_lost_machine_continues_from_its_uploaded_snapshot(tmp_path):
  config = dqn.get_config()
  config.snapshot.url = str(tmp_path / "uploads")
  folder = sweep_folder.SweepFolder.create(str(tmp_path), "swept", False)
  (run,) = folder.list_runs(0, [1])
  assert not run.has_snapshot(config, has_begun=True)
  made = run_folder.RunFolder.create(folder.path, "0-1", overwrite=False)
  made.write_config(config)
  assert not run.has_snapshot(config, has_begun=True)
  store = snapshot_store.open_store(config, made)
  with store.writing() as path:
    (path / "state").write_text("saved")
  store.flush(lambda: 60.0)
  shutil.rmtree(made.snapshots)
  made.make_subfolders()
  assert not run.can_resume()
  assert run.has_snapshot(config, has_begun=True)
  assert not run.has_snapshot(config, has_begun=False)


@pytest.mark.parametrize("mode", ["--mode=sync", "-mode=sync"])
def test_a_resumed_run_keeps_its_mode(tmp_path, mode):
  (run,) = sweep_folder.SweepFolder(tmp_path).list_runs(0, [1])
  flags = ["--config=ppo:cartpole", mode, "--launch=local_mp"]
  setting = {"mode": "async"}
  assert "--mode=async" in processes.make_flags(run, flags, setting, False)
  assert processes.make_flags(run, flags, setting, True) == [
    f"--resume={run.folder.path}",
    "--launch=local_mp",
  ]
