"""Tests of a sweep's folder: overwriting it, and errors of its runs."""

import threading

from slipway.launch.runs import manifest, run_folder, run_lock
from slipway.launch.sweeps import sweep_folder
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
  manifest.write(snapshot, step=1)
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
