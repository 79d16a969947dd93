"""Full disk: a run continues, and writes all files once there is space."""

import itertools
import os
import signal

import ml_collections
import pytest

from slipway.environments import factory, recordings
from tests.launch import small_disk

pytestmark = [
  pytest.mark.chaos,
  pytest.mark.timeout(240),
  small_disk.needs_root,
]


@pytest.fixture
def disk(tmp_path):
  """Mounts a small disk for the test's runs; yields its path."""
  with small_disk.mounted(tmp_path / "runs", megabytes=100) as path:
    yield path


def test_a_run_survives_a_full_disk(disk, start_run):
  run = start_run("--config.snapshot.period_s=2", "--config.restarts.budget=1")
  run.wait_until_learning()
  filler = small_disk.fill(disk)
  steps = run.status()["trainer_steps"]
  restarts = {"worker/1": 1}

  def list_unwritten():
    return {name.partition(".out.")[0] for name in run.status()["unwritten"]}

  run.wait_until(
    lambda: list_unwritten() >= {"curves.csv", "events", "snapshot"}
  )
  run.wait_until(lambda: "not written yet: " in run.stdout)
  run.wait_until(lambda: run.status()["trainer_steps"] > steps + 500)
  (worker,) = run.processes("worker/1")
  os.kill(worker.pid, signal.SIGKILL)
  run.wait_until(lambda: run.status()["node_restarts"] == restarts)
  steps = run.status()["trainer_steps"]
  run.wait_until(lambda: run.status()["trainer_steps"] > steps + 500)
  filler.unlink()
  run.wait_until(lambda: not list_unwritten())
  evaluations = run.status()["evaluation"]["count"]
  run.launcher.terminate()
  assert run.wait() == 0, run.stderr
  assert run.stderr == ""
  run.check_nothing_left()
  assert len(run.evaluations) >= evaluations
  assert run.summary["node_restarts"] == restarts
  # One value per second is written, also for the seconds of the full disk.
  wall_s = run.scalars("run/wall_s")
  assert all(b - a < 3.0 for a, b in itertools.pairwise(wall_s))
  assert (run.path / "curves.png").exists()


def test_a_trainer_dies_while_the_disk_is_full(disk, start_run):
  run = start_run("--config.snapshot.period_s=2")
  run.wait_until_learning()
  run.wait_until(lambda: run.status()["snapshots"]["written"] > 0)
  filler = small_disk.fill(disk)
  run.wait_until(lambda: "snapshot" in run.status()["unwritten"])
  (trainer,) = run.processes("trainer/0")
  os.kill(trainer.pid, signal.SIGKILL)
  run.wait_until(lambda: run.status()["resumes"] == 1)
  steps = run.status()["trainer_steps"]
  run.wait_until(lambda: run.status()["trainer_steps"] > steps + 500)
  filler.unlink()
  run.wait_until(lambda: not run.status()["unwritten"])
  evaluations = run.status()["evaluation"]["count"]
  run.launcher.terminate()
  assert run.wait() == 0, run.stderr
  run.check_nothing_left()
  rows = [row["env_steps"] for row in run.evaluations]
  assert len(rows) >= evaluations
  assert rows == sorted(rows)


def test_a_disk_that_stays_full_fails_the_final_snapshot(disk, start_run):
  run = start_run()
  run.wait_until_learning()
  small_disk.fill(disk)
  run.wait_until(lambda: run.status()["unwritten"])
  run.launcher.terminate()
  assert run.wait() == 1
  line = run.stderr.splitlines()[-1]
  assert line.startswith("train: node trainer/0 failed")
  assert "No space left on device" in line
  assert "the run can't be resumed" in line
  (lost,) = [x for x in run.stderr.splitlines() if "is full, so" in x]
  assert "summary.json" in lost
  run.check_nothing_left()


def test_recorded_episodes_wait_for_space(tmp_path, start_run, control):
  """The disk of the episodes is full, which the panel says, and ends nothing.

  A worker writes them for the first time after a minute.
  """
  with small_disk.mounted(tmp_path / "disk", megabytes=32) as disk:
    folder = disk / "episodes"
    run = start_run(
      f"--config.recording.path={folder}", "--config.topology.workers=1"
    )
    run.wait_until_learning()
    filler = small_disk.fill(disk)
    run.wait_until(lambda: run.status()["unwritten"] == ["episodes"])
    steps = run.status()["trainer_steps"]
    run.wait_until(lambda: run.status()["trainer_steps"] > steps + 500)
    run.wait_until(lambda: "not written yet: episodes" in run.stdout)
    filler.unlink()
    control(run, "stop")
    assert run.wait() == 0, run.stderr
    config = ml_collections.ConfigDict({"name": "CartPole-v1", "kwargs": {}})
    episodes = recordings.read(folder, factory.make_spec(config))
    assert len(episodes.lengths) == run.summary["episodes"]
