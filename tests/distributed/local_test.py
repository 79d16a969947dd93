"""Local runs: what they leave, what stops them, and that nothing stays."""

import csv
import os
import signal

import numpy as np
import pytest
from tensorboard.backend.event_processing import event_accumulator

from launch import best_variables, run_folder

# A start-up takes some 10 s of all cores: longer where they are shared.
pytestmark = pytest.mark.timeout(180)

SUMMARY = {
  "eval_return",
  "eval_episodes",
  "env_steps",
  "trainer_steps",
  "wall_s",
  "start_up_s",
  "env_steps_per_s",
  "trainer_steps_per_s",
  "samples_per_insert",
  "variables_age_s",
  "stopped_because",
}


def check_results(run):
  folder = run_folder.RunFolder.open(run.path)
  summary = run.summary
  assert set(summary) >= SUMMARY
  assert None not in [summary[key] for key in SUMMARY]
  assert 0 < summary["start_up_s"] < summary["wall_s"]
  for key in ("env_steps", "trainer_steps", "env_steps_per_s"):
    assert summary[key] > 0
  # A batch of environment steps is 8 samples each, give or take the limiter's.
  assert 4.0 < summary["samples_per_insert"] < 16.0
  version, variables = best_variables.load(folder.best)
  assert version >= 1
  assert all(np.isfinite(value).all() for value in variables.values())
  kept = {path.name for path in folder.checkpoints.iterdir()}
  assert {"checkpoint", "trainer-1.index", "best.npz"} <= kept
  with open(folder.curves_csv, newline="") as file:
    rows = list(csv.DictReader(file))
  assert float(rows[-1]["eval_return"]) == pytest.approx(summary["eval_return"])
  assert folder.curves_png.stat().st_size > 1_000
  events = event_accumulator.EventAccumulator(str(folder.events))
  events.Reload()
  assert "throughput/environment_steps_per_s" in events.Tags()["scalars"]
  assert len(events.Scalars("evaluation/mean_return")) == len(rows)


def logs_of(run):
  logs = run.path / "logs"
  return {
    str(path.relative_to(logs)) for path in logs.rglob("*") if path.is_file()
  }


def test_the_default_topology_until_trainer_steps(start_run):
  run = start_run("--config.limits.trainer_steps=1_500")
  status = run.wait()
  assert status == 0, run.stderr
  assert run.stderr == ""
  run.check_nothing_left()
  check_results(run)
  assert run.summary["stopped_because"] == "trainer_steps"
  assert run.summary["trainer_steps"] == 1_500
  nodes = {"control/0", "trainer/0", "proxy/0", "evaluator/0"}
  assert logs_of(run) == {*nodes, "worker/0", "worker/1", "runner"}
  assert run.stdout.startswith(f"run folder: {run.path}\n")
  assert ": stopped: the limit of trainer steps was reached" in run.stdout

  # The name is taken now; a second command leaves the run alone.
  before = {path: path.stat().st_mtime_ns for path in run.path.rglob("*")}
  again = start_run()
  status = again.wait()
  assert status == 2
  (line,) = again.stderr.splitlines()
  assert str(run.path) in line
  assert "exists" in line
  after = {path: path.stat().st_mtime_ns for path in run.path.rglob("*")}
  assert after == before


def test_replay_apart_and_no_proxy_until_environment_steps(start_run):
  run = start_run(
    "--config.limits.environment_steps=10_000",
    "--config.topology.workers=1",
    "--config.topology.proxy=False",
    "--config.topology.replay=own_process",
  )
  status = run.wait()
  assert status == 0, run.stderr
  run.check_nothing_left()
  check_results(run)
  assert run.summary["stopped_because"] == "environment_steps"
  assert run.summary["env_steps"] >= 10_000
  nodes = {"control/0", "trainer/0", "replay/0", "evaluator/0"}
  assert logs_of(run) == {*nodes, "worker/0", "runner"}


THREADS = [
  (("--config.limits.wall_clock_s=4",), "wall_clock_s"),
  (("--config.limits.target_return=1",), "target_return"),
]


@pytest.mark.parametrize(("limits", "reason"), THREADS)
def test_threads_until_a_limit(start_run, limits, reason):
  run = start_run("--launch=local_mt", "--config.topology.workers=1", *limits)
  status = run.wait()
  assert status == 0, run.stderr
  run.check_nothing_left()
  assert run.summary["stopped_because"] == reason


SIGNALS = [
  # Ctrl-C in a terminal reaches all processes.
  (lambda run: os.killpg(run.launcher.pid, signal.SIGINT), "SIGINT"),
  (lambda run: run.launcher.terminate(), "SIGTERM"),
  # As batch systems do.
  (lambda run: os.killpg(run.launcher.pid, signal.SIGTERM), "SIGTERM"),
  # A terminal that is closed.
  (lambda run: os.killpg(run.launcher.pid, signal.SIGHUP), "SIGHUP"),
]


@pytest.mark.parametrize(("send", "reason"), SIGNALS)
def test_a_signal_ends_the_training_in_order(start_run, send, reason):
  run = start_run()
  run.wait_until_learning()
  # Its rates are those since learning began: for a second at least.
  run.wait_until(
    lambda: run.stdout.partition(": running")[2].count(": evaluation") >= 3
  )
  assert run.memory(), "there is something to be left"
  send(run)
  status = run.wait()
  assert status == 0, run.stderr
  assert run.stderr == ""
  run.check_nothing_left()
  assert run.summary["stopped_because"] == reason
  check_results(run)
  # Nobody was cut off: each node told that it had ended.
  assert "0 of 2 up" in run.stdout
  assert "saving" in run.log("trainer/0")
  for node in logs_of(run):
    assert "Traceback" not in run.log(node)


def test_a_ctrl_c_in_the_middle_of_the_start_up(start_run):
  run = start_run()
  run.wait_until(lambda: run.processes("control/0"))
  assert ": running" not in run.stdout
  os.killpg(run.launcher.pid, signal.SIGINT)
  status = run.wait()
  assert status == 0, run.stderr
  assert run.stderr == ""
  run.check_nothing_left()
  assert run.summary["stopped_because"] == "SIGINT"


def test_killed_nodes_come_back(start_run):
  run = start_run("--config.limits.environment_steps=60_000")
  run.wait_until_learning()
  for node in ("worker/1", "proxy/0", "evaluator/0"):
    (process,) = run.processes(node)
    process.kill()
    run.wait_until(
      lambda node=node, dead=process: (
        run.processes(node) and run.processes(node) != [dead]
      )
    )
  status = run.wait()
  assert status == 0, run.stderr
  run.check_nothing_left()
  check_results(run)
  assert run.summary["stopped_because"] == "environment_steps"
  said = run.log("runner")
  for node in ("worker/1", "proxy/0", "evaluator/0"):
    assert f"node {node} was ended by SIGKILL" in said
    assert f"{node} is started again" in said
  assert run.summary["node_restarts"] == {
    "evaluator/0": 1,
    "proxy/0": 1,
    "worker/1": 1,
  }
  # A worker outlived its proxy, and the new one writes.
  assert run.summary["reconnects"] >= 1
  assert (
    "acts on its first variables"
    in run.log("worker/1").rpartition("Binding: step")[2]
  )


def test_a_node_that_keeps_failing_ends_the_run(start_run):
  run = start_run("--config.restarts.budget=2")
  run.wait_until_learning()
  for _ in range(3):
    run.wait_until(lambda: run.processes("worker/1"))
    (worker,) = run.processes("worker/1")
    worker.kill()
    worker.wait(10)
  status = run.wait()
  assert status == 1
  (line,) = run.stderr.splitlines()
  assert "node worker/1 was ended by SIGKILL" in line
  assert str(run.path / "logs" / "worker" / "1") in line
  run.check_nothing_left()


def test_a_trainer_that_is_killed_ends_the_run(start_run):
  run = start_run()
  run.wait_until_learning()
  (trainer,) = run.processes("trainer/0")
  trainer.kill()
  status = run.wait()
  assert status == 1
  (line,) = run.stderr.splitlines()
  assert "node trainer/0 was ended by SIGKILL" in line
  run.check_nothing_left()
  assert run.summary["stopped_because"] == "failure"
  assert run.summary["trainer_steps"] > 0


def test_a_launcher_that_is_killed_takes_its_nodes_along(start_run):
  run = start_run()
  run.wait_until_learning()
  run.launcher.kill()
  status = run.wait()
  assert status == -signal.SIGKILL
  run.check_nothing_left(within_s=20.0)
  assert run.summary["stopped_because"] == "launcher_lost"
  assert run.summary["trainer_steps"] > 0
