"""Rollouts in a queue: runs of PPO, also with killed nodes."""

import os
import signal
import time

import pytest

pytestmark = [pytest.mark.runs, pytest.mark.timeout(240)]

PPO = "ppo.py:cartpole"
BATCH = 8  # rollouts
UNROLL = 32  # environment steps per rollout
TWO_WORKERS = "--config.topology.workers=2"
SNAPSHOTS = "--config.snapshot.period_s=2"


def kill(run, node):
  """Kills a node; waits until it has a new process."""
  run.wait_until(lambda: run.processes(node))
  (process,) = run.processes(node)
  os.kill(process.pid, signal.SIGKILL)
  run.wait_until(
    lambda: run.processes(node) and run.processes(node) != [process]
  )


def wait_for_trainer_steps(run, count):
  """Waits until the trainer has made `count` more steps."""
  first = run.status()["trainer_steps"]
  run.wait_until(lambda: run.status()["trainer_steps"] >= first + count)


def end(run):
  run.launcher.terminate()
  assert run.wait() == 0, run.stdout + run.stderr
  assert run.stderr == ""
  run.check_nothing_left()


def test_each_batch_of_a_round_has_the_newest_version(start_run):
  run = start_run(TWO_WORKERS, "--config.limits.trainer_steps=60", config=PPO)
  assert run.wait() == 0, run.stdout + run.stderr
  assert run.stderr == ""
  run.check_nothing_left()
  summary = run.summary
  assert summary["mode"] == "sync"
  assert summary["trainer_steps"] == 60
  assert summary["items_lost"] == 0
  assert set(run.scalars("learner/policy_age_versions_max")) == {0.0}
  # Two workers with 8 environments each collect two batches per round. The last
  # round may be unused, if the limit was reached meanwhile.
  rollouts = summary["items_confirmed"]
  assert 60 * BATCH <= rollouts <= (60 + 2) * BATCH
  assert summary["env_steps"] <= rollouts * UNROLL + 16 * UNROLL


@pytest.mark.chaos
def test_a_worker_killed_in_a_round_does_not_block_it(start_run):
  run = start_run(TWO_WORKERS, "--config.restarts.budget=20", config=PPO)
  run.wait_until_learning()
  for count, pause_s in enumerate((0.0, 0.05, 0.11, 0.17), 1):
    time.sleep(pause_s)
    kill(run, f"worker/{count % 2}")
    wait_for_trainer_steps(run, 10)
  status = run.status()
  assert status["nodes"]["worker"] == {"up": 2, "expected": 2}
  assert status["learner"]["policy_age_versions_max"] == 0.0
  end(run)
  assert run.summary["node_restarts"] == {"worker/0": 2, "worker/1": 2}


@pytest.mark.chaos
def test_async_workers_run_ahead_of_the_trainer(start_run):
  run = start_run(
    *("--mode=async", TWO_WORKERS, "--config.limits.trainer_steps=100"),
    config=PPO,
  )
  assert run.wait() == 0, run.stdout + run.stderr
  run.check_nothing_left()
  assert run.summary["trainer_steps"] == 100
  ages = run.scalars("learner/policy_age_versions_max")
  # The queue holds two batches. Each worker has one in flight and collects
  # another, and the trainer learns from one more.
  assert 0.0 < max(ages) <= 8.0
  assert max(run.scalars("replay/size")) <= 16


@pytest.mark.chaos
@pytest.mark.parametrize("mode", ["async", "sync"])
def test_a_run_with_a_queue_resumes_when_its_trainer_dies(start_run, mode):
  run = start_run(f"--mode={mode}", TWO_WORKERS, SNAPSHOTS, config=PPO)
  run.wait_until_learning()
  run.wait_until(lambda: run.status()["snapshots"]["written"] > 0)
  kill(run, "trainer/0")
  run.wait_until(lambda: run.status()["resumes"] == 1)
  wait_for_trainer_steps(run, 20)
  if mode == "sync":
    assert run.status()["learner"]["policy_age_versions_max"] == 0.0
  end(run)
  assert run.summary["resumes"] == 1


# Flags by kind of rollout: plain, with the state of two LSTMs, and with vectors
# as actions.
SHAPES = {
  "feed_forward": (),
  "recurrent": ("--config.network.core_size=16",),
  "continuous": (
    "--config.environment.name=Pendulum-v1",
    "--config.network.distribution=conditional_gaussian",
  ),
}


@pytest.mark.chaos
@pytest.mark.parametrize("shape", SHAPES)
def test_any_node_of_a_sync_run_is_killed(start_run, shape):
  run = start_run(TWO_WORKERS, SNAPSHOTS, *SHAPES[shape], config=PPO)
  run.wait_until_learning()
  for node in ("proxy/0", "trainer/0", "evaluator/0"):
    wait_for_trainer_steps(run, 10)
    kill(run, node)
  wait_for_trainer_steps(run, 20)
  # The trainer has learned from the rest of the interrupted rounds, and later
  # rounds have no rollouts of older versions.
  assert run.status()["learner"]["policy_age_versions_max"] == 0.0
  end(run)


@pytest.mark.chaos
@pytest.mark.parametrize("mode", ["async", "sync"])
def test_a_run_is_paused_and_stopped_and_resumed(start_run, control, mode):
  first = start_run(f"--mode={mode}", TWO_WORKERS, SNAPSHOTS, config=PPO)
  first.wait_until_learning()
  control(first, "pause")
  time.sleep(1.0)
  before = first.status()
  time.sleep(1.0)
  after = first.status()
  assert after["phase"] == "paused"
  for count in ("env_steps", "trainer_steps"):
    assert after[count] == before[count]
  control(first, "resume")
  wait_for_trainer_steps(first, 20)
  end(first)
  summary = first.summary

  limit = summary["trainer_steps"] + 20
  second = start_run(f"--config.limits.trainer_steps={limit}", resume=True)
  assert second.wait() == 0, second.stdout + second.stderr
  assert second.stderr == ""
  second.check_nothing_left()
  assert second.summary["resumes"] == 1
  assert second.summary["trainer_steps"] == limit
  assert second.summary["env_steps"] > summary["env_steps"]
  values = [row["variables_version"] for row in second.evaluations]
  assert values == sorted(values)


def test_more_workers_than_the_maximum_age_allows_are_no_error(
  start_run, control
):
  limit = "--config.variables.max_age=4"  # minimum for 16 environments
  run = start_run("--mode=async", limit, TWO_WORKERS, config=PPO)
  run.wait_until_learning()
  assert control(run, "workers", "3") == "workers are 3 now\n"
  run.wait_until(lambda: run.status()["nodes"]["worker"]["up"] == 3)
  wait_for_trainer_steps(run, 20)
  assert not run.status()["node_restarts"]
  end(run)
