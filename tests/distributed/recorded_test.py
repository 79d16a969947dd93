"""Recorded data: runs that learn from it, without workers, and that record."""

import os
import time

import ml_collections
import numpy as np
import pytest

from slipway.environments import factory, recordings
from slipway.environments import recorder as recorder_lib

pytestmark = [pytest.mark.runs, pytest.mark.timeout(240)]

BC = "bc.py:cartpole"
# No environment is stepped, whose rate the fixture would limit.
_NO_RATE = "--config.rates.environment_steps_per_s=0"
_STEPS = 1_500  # steps per environment


@pytest.fixture
def recorded(tmp_path):
  """Records episodes of a policy that balances the pole; returns their folder.

  The policy pushes the cart towards the side to which the pole falls.
  """
  folder = tmp_path / "recorded"
  config = ml_collections.ConfigDict({"name": "CartPole-v1", "kwargs": {}})
  environment = factory.make(config, 4, seed=1)
  with recorder_lib.Recorder(folder, "a", config, environment) as recorder:
    step = environment.reset()
    recorder.add(None, step)
    for _ in range(_STEPS):
      falls_to = step.observation[:, 2] + step.observation[:, 3]
      actions = (falls_to > 0).astype(np.int32)
      step = environment.step(actions)
      recorder.add(actions, step)
  environment.close()
  return folder


def test_a_run_without_workers_learns_and_is_resumed(
  start_run, control, recorded
):
  run = start_run(
    f"--config.dataset.path={recorded}",
    _NO_RATE,
    "--config.snapshot.period_s=2",
    config=BC,
  )
  run.wait_until_learning()
  run.wait_until(
    lambda: (
      max((row["eval_return"] for row in run.evaluations), default=0) > 100
    )
  )
  status = run.status()
  assert status["phase"] == "running"
  assert status["replay"] is None
  assert status["trainer_steps"] > 0
  assert status["env_steps"] == 0
  assert status["workers"] == {}
  assert ": trainer " in control(run, "status")
  control(run, "pause")
  run.wait_until(lambda: run.status()["phase"] == "paused")
  control(run, "resume")
  run.launcher.terminate()
  assert run.wait() == 0, run.stdout + run.stderr
  assert run.stderr == ""
  run.check_nothing_left()
  summary, rows = run.summary, run.evaluations
  assert summary["stopped_because"] == "SIGTERM"
  assert not (run.path / "logs" / "worker").exists()

  limit = summary["trainer_steps"] + 2_000
  resumed = start_run(f"--config.limits.trainer_steps={limit}", resume=True)
  assert resumed.wait() == 0, resumed.stdout + resumed.stderr
  assert resumed.stderr == ""
  resumed.check_nothing_left()
  assert resumed.summary["stopped_because"] == "trainer_steps"
  assert resumed.summary["trainer_steps"] == limit
  assert resumed.summary["resumes"] == 1
  assert resumed.evaluations[: len(rows)] == rows
  assert len(resumed.evaluations) > len(rows)


@pytest.mark.parametrize(
  "dataset",
  [
    ("--config.dataset.path=",),
    ("--config.dataset.ratio=0.25", "--config.replay.sampler=prioritized"),
  ],
)
def test_workers_follow_recorded_episodes(start_run, recorded, dataset):
  run = start_run(
    f"--config.dataset.path={recorded}",
    _NO_RATE,
    "--config.limits.trainer_steps=300",
    config="cql.py:cartpole",
  )
  assert run.wait() == 0, run.stdout + run.stderr
  assert run.summary["env_steps"] == 0
  resumed = start_run(
    *dataset,
    "--config.topology.workers=1",
    "--config.limits.trainer_steps=600",
    resume=True,
  )
  assert resumed.wait() == 0, resumed.stdout + resumed.stderr
  assert resumed.stderr == ""
  resumed.check_nothing_left()
  assert resumed.summary["trainer_steps"] >= 600
  assert resumed.summary["env_steps"] > 0
  assert resumed.summary["replay"]["size"] > 0


def read_parts(folder):
  """Returns the episodes of each part, by the part's name."""
  config = ml_collections.ConfigDict({"name": "CartPole-v1", "kwargs": {}})
  spec = factory.make_spec(config)
  return {x: recordings.read(folder / x, spec) for x in os.listdir(folder)}


@pytest.mark.parametrize(
  ("mode", "config"),
  [("async", None), ("sync", "ppo.py:cartpole"), ("single", None)],
)
def test_a_run_records_the_episodes_of_its_workers(
  start_run, tmp_path, mode, config
):
  folder = tmp_path / "episodes"
  run = start_run(
    f"--mode={mode}",
    f"--config.recording.path={folder}",
    "--config.topology.workers=2",
    "--config.limits.environment_steps=3000",
    config=config,
  )
  assert run.wait() == 0, run.stdout + run.stderr
  run.check_nothing_left()
  before = read_parts(folder)
  workers = 1 if mode == "single" else 2
  assert {*before} == {f"worker-{k}-000000-v0" for k in range(workers)}
  lengths = [n for part in before.values() for n in part.lengths]
  assert len(lengths) == run.summary["episodes"]
  assert sum(lengths) <= run.summary["env_steps"]

  resumed = start_run("--config.limits.environment_steps=6000", resume=True)
  assert resumed.wait() == 0, resumed.stdout + resumed.stderr
  parts = read_parts(folder)
  assert {*parts} == {
    f"worker-{k}-00000{i}-v0" for k in range(workers) for i in range(2)
  }
  for name, part in before.items():
    np.testing.assert_array_equal(part.observations, parts[name].observations)


@pytest.mark.chaos
def test_the_episodes_of_a_killed_worker_are_whole(
  start_run, control, tmp_path
):
  folder = tmp_path / "episodes"
  run = start_run(
    f"--config.recording.path={folder}",
    "--config.topology.workers=1",
    "--config.rates.environment_steps_per_s=0",
    "--config.restarts.budget=100",
  )
  run.wait_until_learning()
  for _ in range(3):
    (worker,) = run.processes("worker/0")
    time.sleep(0.5)
    worker.kill()
    run.wait_until(
      lambda killed=worker: run.processes("worker/0") not in ([], [killed])
    )
  steps = run.status()["env_steps"]
  run.wait_until(lambda: run.status()["env_steps"] > steps + 3_000)
  control(run, "stop")
  assert run.wait() == 0, run.stdout + run.stderr
  parts = read_parts(folder)
  assert {*parts} == {"worker-0-000000-v0"}  # the last process wrote it
  assert sum(part.lengths.sum() for part in parts.values()) > 1_000


@pytest.mark.chaos
def test_a_run_resumes_when_its_trainer_dies(start_run, recorded):
  run = start_run(
    f"--config.dataset.path={recorded}",
    _NO_RATE,
    "--config.snapshot.period_s=1",
    config=BC,
  )
  run.wait_until_learning()
  run.wait_until(lambda: run.status()["snapshots"]["written"] >= 1)
  (trainer,) = run.processes("trainer/0")
  trainer.kill()
  run.wait_until(lambda: run.processes("trainer/0") not in ([], [trainer]))
  steps = run.status()["trainer_steps"]
  run.wait_until(lambda: run.status()["trainer_steps"] > steps + 1_000)
  run.launcher.terminate()
  assert run.wait() == 0, run.stdout + run.stderr
  run.check_nothing_left()
  assert run.summary["resumes"] == 1
