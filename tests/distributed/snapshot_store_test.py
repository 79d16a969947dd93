"""Snapshots elsewhere: a run whose machine is lost goes on from the store."""

import json
import shutil
import signal

import psutil
import pytest

from slipway.launch.runs import run_counters, run_folder, snapshot_store

# Three starts of a run on a machine that may be busy.
pytestmark = [pytest.mark.chaos, pytest.mark.timeout(300)]

_MORE_STEPS = 500  # of the trainer


def test_a_run_goes_on_where_its_folder_is_lost(start_run, tmp_path):
  shared = tmp_path / "shared"
  there = shared / "a-run" / "snapshots"
  first = start_run(
    f"--config.snapshot.url=file://{shared}", "--config.snapshot.period_s=2"
  )
  first.wait_until_learning()
  first.wait_until(lambda: (there / "000002" / "manifest.json").exists())
  kept = snapshot_store.SnapshotStore(_folder(first))
  # The trainer's process: the runner starts it again, from the store.
  hidden = tmp_path / "hidden"
  first.launcher.send_signal(signal.SIGSTOP)  # who would do so at once
  (trainer,) = first.processes("trainer/0")
  trainer.send_signal(signal.SIGKILL)
  psutil.wait_procs([trainer], timeout=30.0)
  kept_before = kept.newest().number
  _folder(first).snapshots.rename(hidden)
  _folder(first).snapshots.mkdir()
  first.launcher.send_signal(signal.SIGCONT)
  first.wait_until(lambda: "resumes from snapshot" in first.log("trainer/0"))
  said = first.log("trainer/0").rpartition("resumes from snapshot ")[2]
  assert kept_before - 1 <= int(said.split()[0]) <= kept_before
  first.wait_until(lambda: kept.newest().number > kept_before)
  first.launcher.terminate()
  assert first.wait() == 0, first.stderr

  # What a run that ends in order had last, the store has.
  newest = kept.newest()
  counters = run_counters.RunCounters.read(newest.path)
  assert counters.trainer_steps == first.summary["trainer_steps"]
  assert first.summary["snapshot_upload_failures"] == 0
  assert _newest_there(shared, tmp_path / "looked") == newest.number
  assert len(list(there.glob("0*"))) <= 3  # two, and the best

  # Another machine has its config only.
  first.path.rename(tmp_path / "lost")
  first.path.mkdir(parents=True)
  shutil.copy(shared / "a-run" / "config.json", first.path)
  limit = counters.trainer_steps + _MORE_STEPS
  second = start_run(f"--config.limits.trainer_steps={limit}", resume=True)
  assert second.wait() == 0, second.stderr
  assert second.stderr == ""
  second.check_nothing_left()
  assert (
    f"resumes from snapshot {newest.number}: "
    f"{counters.environment_steps:,} environment steps, "
    f"{counters.trainer_steps:,} trainer steps" in second.stdout
  )
  assert second.summary["trainer_steps"] == limit
  assert second.summary["env_steps"] > counters.environment_steps
  assert second.summary["resumes"] == 1
  last = snapshot_store.SnapshotStore(_folder(second)).newest().number
  assert last > newest.number
  assert _newest_there(shared, tmp_path / "looked") == last
  config = json.loads((shared / "a-run" / "config.json").read_text())
  assert config["limits"]["trainer_steps"] == limit


def _newest_there(shared, folder):
  elsewhere = run_folder.RunFolder(folder / "a-run")
  url = f"file://{shared}"
  return snapshot_store.SnapshotStore(elsewhere, url=url).newest().number


def _folder(run):
  return run_folder.RunFolder.open(run.path)
