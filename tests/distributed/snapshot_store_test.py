"""Snapshots in a shared store: a run resumes after the loss of its machine."""

import json
import shutil
import signal

import psutil
import pytest

from slipway.launch.runs import run_counters, run_folder, snapshot_store

# The test starts nodes three times, on a machine that may be busy.
pytestmark = [pytest.mark.chaos, pytest.mark.timeout(300)]

_MORE_STEPS = 500  # trainer steps


def test_a_run_resumes_after_its_folder_is_lost(start_run, tmp_path):
  shared = tmp_path / "shared"
  stored = shared / "a-run" / "snapshots"
  first = start_run(
    f"--config.snapshot.url=file://{shared}", "--config.snapshot.period_s=2"
  )
  first.wait_until_learning()
  first.wait_until(lambda: (stored / "000002" / "manifest.json").exists())
  local_store = snapshot_store.SnapshotStore(_folder(first))
  # The trainer is killed and the local snapshots are hidden, so the restarted
  # trainer restores a snapshot from the store.
  hidden = tmp_path / "hidden"
  first.launcher.send_signal(signal.SIGSTOP)  # else restarts it at once
  (trainer,) = first.processes("trainer/0")
  trainer.send_signal(signal.SIGKILL)
  psutil.wait_procs([trainer], timeout=30.0)
  number_before = local_store.newest().number
  _folder(first).snapshots.rename(hidden)
  _folder(first).snapshots.mkdir()
  first.launcher.send_signal(signal.SIGCONT)
  first.wait_until(lambda: "resumes from snapshot" in first.log("trainer/0"))
  restored = first.log("trainer/0").rpartition("resumes from snapshot ")[2]
  assert number_before - 1 <= int(restored.split()[0]) <= number_before
  first.wait_until(lambda: local_store.newest().number > number_before)
  first.launcher.terminate()
  assert first.wait() == 0, first.stderr

  # The store has the last snapshot of a run that stops in order.
  newest = local_store.newest()
  counters = run_counters.RunCounters.read(newest.path)
  assert counters.status.trainer_steps == first.summary["trainer_steps"]
  assert first.summary["snapshots"]["upload_failures"] == 0
  assert _newest_in_store(shared, tmp_path / "looked") == newest.number
  assert len(list(stored.glob("0*"))) <= 3  # the two newest, and the best

  # Another machine has only the run's config.
  first.path.rename(tmp_path / "lost")
  first.path.mkdir(parents=True)
  shutil.copy(shared / "a-run" / "config.json", first.path)
  limit = counters.status.trainer_steps + _MORE_STEPS
  second = start_run(f"--config.limits.trainer_steps={limit}", resume=True)
  assert second.wait() == 0, second.stderr
  assert second.stderr == ""
  second.check_nothing_left()
  assert (
    f"resumes from snapshot {newest.number}: "
    f"{counters.status.env_steps:,} environment steps, "
    f"{counters.status.trainer_steps:,} trainer steps" in second.stdout
  )
  assert second.summary["trainer_steps"] == limit
  assert second.summary["env_steps"] > counters.status.env_steps
  assert second.summary["resumes"] == 1
  last = snapshot_store.SnapshotStore(_folder(second)).newest().number
  assert last > newest.number
  assert _newest_in_store(shared, tmp_path / "looked") == last
  config = json.loads((shared / "a-run" / "config.json").read_text())
  assert config["limits"]["trainer_steps"] == limit


def _newest_in_store(shared, folder):
  """Returns the number of the newest snapshot in the shared store."""
  elsewhere = run_folder.RunFolder(folder / "a-run")
  url = f"file://{shared}"
  return snapshot_store.SnapshotStore(elsewhere, url=url).newest().number


def _folder(run):
  return run_folder.RunFolder.open(run.path)
