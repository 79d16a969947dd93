"""Local runs: their results, what stops them, and that no process is left."""

import contextlib
import csv
import os
import pathlib
import re
import signal
import time

import numpy as np
import pytest
from tensorboard.backend.event_processing import event_accumulator

from slipway.launch.runs import (
  best_variables,
  run_counters,
  run_folder,
  snapshot_store,
)

# A start-up takes about 10 s on all cores, and longer if they are shared.
pytestmark = pytest.mark.timeout(180)

SUMMARY = {
  "env_steps",
  "trainer_steps",
  "wall_s",
  "start_up_s",
  "stopped_because",
}


def check_results(run):
  folder = run_folder.RunFolder.open(run.path)
  summary = run.summary
  assert set(summary) >= SUMMARY
  assert None not in [summary[key] for key in SUMMARY]
  assert 0 < summary["start_up_s"] < summary["wall_s"]
  for key in ("env_steps", "trainer_steps"):
    assert summary[key] > 0
  for key in ("mean_env_steps_per_s", "mean_trainer_steps_per_s"):
    assert summary["rates"][key] > 0
  assert summary["variables"]["mean_age_s"] > 0
  assert summary["evaluation"]["episodes"] > 0
  # The target is 8 samples per insert, within the rate limiter's tolerance.
  assert 4.0 < summary["replay"]["samples_per_insert"] < 16.0
  version, variables = best_variables.load(folder.best)
  assert version >= 1
  assert all(np.isfinite(value).all() for value in variables.values())
  snapshot = snapshot_store.SnapshotStore(folder).newest()
  counters = run_counters.RunCounters.read(snapshot.path)
  assert counters.status.trainer_steps == summary["trainer_steps"], (
    "none at the end"
  )
  with open(folder.curves_csv, newline="") as file:
    rows = list(csv.DictReader(file))
  assert float(rows[-1]["eval_return"]) == pytest.approx(
    summary["evaluation"]["mean_return"]
  )
  assert folder.curves_png.stat().st_size > 1_000
  events = event_accumulator.EventAccumulator(str(folder.events))
  events.Reload()
  assert "rates/env_steps_per_s" in events.Tags()["scalars"]
  assert len(events.Scalars("evaluation/mean_return")) == len(rows)


def list_logs(run):
  """Returns the names of all logs of a run, such as 'worker/0'."""
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
  nodes = {"trainer/0", "proxy/0", "evaluator/0", "worker/0", "worker/1"}
  assert list_logs(run) == {*nodes, "control", "runner"}
  assert run.stdout.startswith(f"run folder: {run.path}\n")
  assert ": stopped: the limit of trainer steps was reached" in run.stdout

  # The name is in use now, so a second command must not change the run.
  before = {path: path.stat().st_mtime_ns for path in run.path.rglob("*")}
  again = start_run()
  status = again.wait()
  assert status == 2
  (line,) = again.stderr.splitlines()
  assert str(run.path) in line
  assert "exists" in line
  after = {path: path.stat().st_mtime_ns for path in run.path.rglob("*")}
  assert after == before


@pytest.mark.runs
def test_separate_replay_and_no_proxy_until_environment_steps(
  start_run, tmp_path, monkeypatch
):
  (tmp_path / "my_hooks.py").write_text(
    "def notify(event):\n  print('called at', event.name, flush=True)\n"
  )
  monkeypatch.setenv("PYTHONPATH", str(tmp_path))
  run = start_run(
    "--config.hooks=my_hooks:notify",
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
    assert f"called at {name}\n" in run.stdout
  assert f"evaluate: slipway evaluate --run={run.path}\n" in run.stdout
  assert run.stdout.endswith("--config.limits.environment_steps=8000\n")
  nodes = {"trainer/0", "replay/0", "evaluator/0", "worker/0"}
  assert list_logs(run) == {*nodes, "control", "runner"}


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


@pytest.mark.runs
@pytest.mark.parametrize(("limits", "reason"), THREADS)
def test_threads_until_a_limit(start_run, limits, reason):
  run = start_run("--launch=local_mt", "--config.topology.workers=1", *limits)
  status = run.wait()
  assert status == 0, run.stderr
  run.check_nothing_left()
  assert run.summary["stopped_because"] == reason


def send_to_group(number, marks=pytest.mark.chaos):
  """Returns a case: a signal to all processes, by which the run then stops."""
  return pytest.param(
    lambda run: os.killpg(run.launcher.pid, number), number.name, marks=marks
  )


SIGNALS = [
  # A terminal sends Ctrl-C to all processes, SIGHUP when it is closed, and
  # SIGQUIT at Ctrl-\.
  send_to_group(signal.SIGINT, marks=()),
  send_to_group(signal.SIGHUP),
  send_to_group(signal.SIGQUIT),
  # Slurm sends SIGTERM, or what `--signal` names; SGE what `-notify` and its
  # limits do.
  send_to_group(signal.SIGTERM),
  send_to_group(signal.SIGUSR2),
  send_to_group(signal.SIGXCPU),
  pytest.param(
    lambda run: run.launcher.terminate(), "SIGTERM", marks=pytest.mark.chaos
  ),
]


@pytest.mark.parametrize(("send", "reason"), SIGNALS)
def test_a_signal_stops_the_run_in_order(start_run, send, reason):
  run = start_run()
  run.wait_until_learning()
  # The summary's rates are means since the first update: over a second or more.
  run.wait_until(
    lambda: run.stdout.partition(": running")[2].count(": evaluation") >= 3
  )
  assert run.memory(), "the run has no tmpfs directory that could be left"
  send(run)
  status = run.wait()
  assert status == 0, run.stderr
  assert run.stderr == ""
  run.check_nothing_left()
  assert run.summary["stopped_because"] == reason
  check_results(run)
  # No node was killed: both workers reported that they had stopped.
  assert run.summary["nodes"]["worker"] == {"up": 0, "expected": 2}
  assert "is written" in run.log("trainer/0")
  for node in list_logs(run):
    assert "Traceback" not in run.log(node)


@pytest.mark.runs
def test_a_ctrl_c_in_the_middle_of_the_start_up(start_run):
  run = start_run()
  run.wait_until(lambda: run.processes("trainer/0"))
  assert ": running" not in run.stdout
  os.killpg(run.launcher.pid, signal.SIGINT)
  status = run.wait()
  assert status == 0, run.stderr
  assert run.stderr == ""
  run.check_nothing_left()
  assert run.summary["stopped_because"] == "SIGINT"


def is_pending(number, pid):
  """Returns whether a process has not yet received a signal sent to it."""
  status = pathlib.Path(f"/proc/{pid}/status").read_text()
  pending = re.search(r"^ShdPnd:\s*(\w+)", status, re.MULTILINE)
  return bool(int(pending[1], 16) >> (number - 1) & 1)


# conditions at which the first Ctrl-C is sent, soon followed by the second
INTERRUPTED_AT = [
  pytest.param(
    lambda run: ": running" in run.stdout,
    id="learning",
    marks=pytest.mark.chaos,
  ),
  pytest.param(lambda run: run.processes("worker/1"), id="start-up"),
  # The fork server imports for seconds, so there is no node yet.
  pytest.param(lambda run: "run folder" in run.stdout, id="imports"),
]


def test_a_ctrl_c_during_the_checks_leaves_no_fork_server(start_run):
  run = start_run()
  run.wait_until(lambda: len(run.processes()) >= 2)  # with the fork server
  os.killpg(run.launcher.pid, signal.SIGINT)
  assert run.wait() == 0
  run.check_nothing_left(within_s=10.0)


@pytest.mark.parametrize("is_due", INTERRUPTED_AT)
def test_a_second_ctrl_c_kills_at_once(start_run, is_due):
  run = start_run()
  run.wait_until(lambda: is_due(run))
  os.killpg(run.launcher.pid, signal.SIGINT)
  # Linux and Python deliver only one of two signals, if the first has not been
  # handled yet: while a library is loaded, another one is needed.
  while run.launcher.poll() is None:
    run.wait_until(lambda: not is_pending(signal.SIGINT, run.launcher.pid))
    with contextlib.suppress(ProcessLookupError):
      os.killpg(run.launcher.pid, signal.SIGINT)
    time.sleep(0.1)
  status = run.wait()
  assert status == 1
  assert run.stderr == "train: killed at once; what was not saved is lost\n"
  run.check_nothing_left()
  assert not (run.path / "summary.json").exists()


@pytest.mark.runs
def test_nodes_end_when_the_launcher_is_killed(start_run):
  run = start_run("--config.snapshot.period_s=1")
  run.wait_until_learning()
  run.wait_until(lambda: run.status()["snapshots"]["written"] > 0)
  run.launcher.kill()
  status = run.wait()
  assert status == -signal.SIGKILL
  run.check_nothing_left(within_s=20.0)
  assert not (run.path / "summary.json").exists()
  resumed = start_run(resume=True)
  resumed.wait_until_learning()
  resumed.launcher.terminate()
  assert resumed.wait() == 0, resumed.stderr
  assert run.summary["resumes"] == 1
