"""Local runs: what they leave, what stops them, and that nothing stays."""

import csv
import os
import signal
import time

import numpy as np
import pytest
from tensorboard.backend.event_processing import event_accumulator

from slipway.launch.runs import best_variables, run_folder, snapshot_store

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
  snapshot = snapshot_store.SnapshotStore(folder).newest()
  assert snapshot.step == summary["trainer_steps"], "the last one is of the end"
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
  run = start_run("--config.limits.trainer_steps=500")
  status = run.wait()
  assert status == 0, run.stderr
  assert run.stderr == ""
  run.check_nothing_left()
  check_results(run)
  assert run.summary["stopped_because"] == "trainer_steps"
  assert run.summary["trainer_steps"] == 500
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


def test_replay_apart_and_no_proxy_until_environment_steps(
  start_run, tmp_path, monkeypatch
):
  (tmp_path / "my_hooks.py").write_text(
    "def notify(event):\n  print('called at', event.name, flush=True)\n"
  )
  monkeypatch.setenv("PYTHONPATH", str(tmp_path))
  run = start_run(
    "--config.hooks=csv,my_hooks:notify",
    "--config.limits.environment_steps=4_000",
    "--config.topology.workers=1",
    "--config.topology.proxy=False",
    "--config.topology.replay=own_process",
  )
  status = run.wait()
  assert status == 0, run.stderr
  run.check_nothing_left()
  check_results(run)
  assert run.summary["stopped_because"] == "environment_steps"
  assert run.summary["env_steps"] >= 4_000
  for name in ("start", "evaluation", "snapshot", "end"):
    assert f"called at {name}\n" in run.log("control/0")
  rows = (run.path / "metrics.csv").read_text().splitlines()
  assert len(rows) == 1 + len(run.evaluations)
  assert f"evaluate: slipway evaluate --run={run.path}\n" in run.stdout
  assert run.stdout.endswith("--config.limits.environment_steps=8000\n")
  nodes = {"control/0", "trainer/0", "replay/0", "evaluator/0"}
  assert logs_of(run) == {*nodes, "worker/0", "runner"}


THREADS = [
  (("--config.limits.episodes=100",), "episodes"),
  pytest.param(
    (
      "--config.limits.target_return=1",
      "--config.limits.target_evaluations=1",
    ),
    "target_return",
    marks=pytest.mark.chaos,
  ),
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
  # As batch systems do.
  pytest.param(
    lambda run: os.killpg(run.launcher.pid, signal.SIGTERM),
    "SIGTERM",
    marks=pytest.mark.chaos,
  ),
  pytest.param(
    lambda run: run.launcher.terminate(), "SIGTERM", marks=pytest.mark.chaos
  ),
  # A terminal that is closed.
  pytest.param(
    lambda run: os.killpg(run.launcher.pid, signal.SIGHUP),
    "SIGHUP",
    marks=pytest.mark.chaos,
  ),
  # Ctrl-\\ in a terminal.
  pytest.param(
    lambda run: os.killpg(run.launcher.pid, signal.SIGQUIT),
    "SIGQUIT",
    marks=pytest.mark.chaos,
  ),
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
  assert "is written" in run.log("trainer/0")
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


# when the first Ctrl-C comes, and the second
AT_ONCE = [
  pytest.param(
    lambda run: ": running" in run.stdout,
    id="learning",
    marks=pytest.mark.chaos,
  ),
  pytest.param(lambda run: run.processes("worker/1"), id="start-up"),
  # The launcher and two that it starts: nothing is forked for seconds yet.
  pytest.param(lambda run: len(run.processes()) >= 3, id="imports"),
]


@pytest.mark.parametrize("then", AT_ONCE)
def test_a_second_ctrl_c_kills_at_once(start_run, then):
  run = start_run()
  run.wait_until(lambda: then(run))
  os.killpg(run.launcher.pid, signal.SIGINT)
  time.sleep(0.2)  # of two that come at once, Linux delivers one
  os.killpg(run.launcher.pid, signal.SIGINT)
  status = run.wait()
  assert status == 1
  assert run.stderr == "train: killed at once; what was not saved is lost\n"
  run.check_nothing_left()
  assert not (run.path / "summary.json").exists()


def test_a_launcher_that_is_killed_takes_its_nodes_along(start_run):
  run = start_run()
  run.wait_until_learning()
  run.launcher.kill()
  status = run.wait()
  assert status == -signal.SIGKILL
  run.check_nothing_left(within_s=20.0)
  assert run.summary["stopped_because"] == "launcher_lost"
  assert run.summary["trainer_steps"] > 0
