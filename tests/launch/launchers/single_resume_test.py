"""Tests that a resumed run in one process equals one that never stopped."""

import csv
import json
import os
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from slipway.launch.runs import curves, run_counters, run_folder, snapshot_store
from tests.environments import recorded
from tests.launch.launchers import snapshot_contents

STEPS = 210  # trainer steps of a whole run
_PERIOD = 35  # trainer steps between evaluations
_TIMED = {"wall_s", "env_steps_per_s", "trainer_steps_per_s"}
_DEADLINE_S = 90.0
_FLAGS = (
  "--config=apex_dqn:cartpole",
  "--config.limits.target_return=inf",
  "--config.network.hidden_sizes=(32,)",
  "--config.exploration.schedule=linear",
  "--config.replay.min_size=200",
  "--config.replay.capacity=4000",
  f"--config.evaluation.period_steps={_PERIOD}",
)

# A program that kills itself in the middle of its second snapshot.
_KILLED_IN_A_SNAPSHOT = """
import os, signal, sys
from slipway.launch.commands import train
from slipway.replay.tables import local_table
save, saves = local_table.LocalTable.save, []

def save_and_die(table, folder):
  save(table, folder)
  saves.append(folder)
  if len(saves) == 2:
    os.kill(os.getpid(), signal.SIGKILL)

local_table.LocalTable.save = save_and_die
sys.exit(train.main(sys.argv))
"""


_SLOWLY = (
  # Slow runs are far from their limit when they are interrupted. No result
  # depends on time.
  "--config.rates.environment_steps_per_s=200",
  "--config.snapshot.period_s=0.2",
)
_FAST = ("--config.rates.environment_steps_per_s=0",)

# Each test starts several processes, on a machine that may be busy.
pytestmark = [pytest.mark.runs, pytest.mark.timeout(400)]


# A program that never finishes its first snapshot.
_HANGS_IN_A_SNAPSHOT = """
import signal, sys
from slipway.launch.commands import train
from slipway.replay.tables import local_table

def hang(table, folder):
  print("saving", flush=True)
  while True:
    signal.pause()

local_table.LocalTable.save = hang
sys.exit(train.main(sys.argv))
"""


def limit(steps):
  return f"--config.limits.trainer_steps={steps}"


def _environment_steps(steps):
  return f"--config.limits.environment_steps={steps}"


class Run:
  """A run's folder, with methods that start its processes."""

  def __init__(self, run_dir, name="a-run"):
    self.folder = run_folder.RunFolder(run_dir / name)
    self._new = (
      "--mode=single", f"--name={name}", f"--run_dir={run_dir}", *_FLAGS,
    )  # fmt: skip

  @property
  def snapshots(self):
    return snapshot_store.SnapshotStore(self.folder, keep=2)

  def start(self, *flags, program=("-m", "slipway.launch.commands.train")):
    """Starts the run from scratch, and returns its process."""
    return self._start(program, *self._new, *flags)

  def resume(self, *flags, program=("-m", "slipway.launch.commands.train")):
    """Resumes the run, and returns its process."""
    return self._start(program, f"--resume={self.folder.path}", *flags)

  def _newest_number(self):
    names = (path.name for path in self.folder.snapshots.glob("0*"))
    return max(map(int, names), default=0)

  def _start(self, program, *flags):
    self._number_at_start = self._newest_number()
    return subprocess.Popen(
      [sys.executable, *program, *flags],
      stdout=subprocess.PIPE,
      stderr=subprocess.PIPE,
      text=True,
      env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )

  def wait_for_snapshots(self, count, process):
    """Waits until a process has written a number of snapshots."""
    deadline_s = time.monotonic() + _DEADLINE_S
    while self._newest_number() < self._number_at_start + count:
      assert process.poll() is None, process.communicate()
      assert time.monotonic() < deadline_s
      time.sleep(0.01)

  def damage(self, number, name):
    path = self.folder.snapshots / f"{number:06d}" / name
    os.truncate(path, path.stat().st_size // 2)


def end(process, status=0):
  """Waits until a process has ended, and returns its output."""
  out, err = process.communicate(timeout=_DEADLINE_S)
  assert process.returncode == status, err
  return out + err


def evaluations(folder):
  with open(folder.curves_csv, newline="") as file:
    rows = list(csv.DictReader(file))
  return [
    {name: row[name] for name in curves.COLUMNS if name not in _TIMED}
    for row in rows
  ]


def saved(run):
  """Returns the content of a run's newest snapshot; `==` compares its bits."""
  contents = snapshot_contents.read(run.snapshots.newest().path)
  assert sum(map(len, contents["learner"].values())) > 4 * 500
  assert len(contents["table"]) == 3
  return contents


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
  """Returns a run that was not stopped before its limit."""
  run = Run(tmp_path_factory.mktemp("whole"))
  end(run.start(limit(STEPS)))
  assert len(evaluations(run.folder)) == STEPS // _PERIOD
  return run


def assert_equal_to(run, whole):
  assert saved(run) == saved(whole)
  assert evaluations(run.folder) == evaluations(whole.folder)
  wall_s = [
    float(row.split(",")[0])
    for row in run.folder.curves_csv.read_text().splitlines()[1:]
  ]
  assert wall_s == sorted(wall_s)
  one, other = (json.loads(r.folder.summary.read_text()) for r in (run, whole))
  for name in ("env_steps", "trainer_steps", "stopped_because"):
    assert one[name] == other[name]


@pytest.mark.chaos
def test_stopped_in_all_ways(tmp_path, whole):
  run = Run(tmp_path)
  end(run.start(limit(_PERIOD)))  # an evaluation follows the last trainer step
  for number in (signal.SIGINT, signal.SIGTERM):
    process = run.resume(limit(STEPS), *_SLOWLY)
    run.wait_for_snapshots(1, process)
    process.send_signal(number)
    assert number.name in end(process)
  process = run.resume(*_FAST, limit(0), _environment_steps(1_200))
  assert "resumes from snapshot" in end(process)
  steps = json.loads(run.folder.summary.read_text())["env_steps"]
  assert 1_200 <= steps < 1_200 + 32  # 32 environments step at once
  end(run.resume(limit(STEPS), _environment_steps(0)))
  assert_equal_to(run, whole)


@pytest.mark.chaos
def test_killed_in_all_ways(tmp_path, whole):
  run = Run(tmp_path)
  process = run.start(limit(STEPS), *_SLOWLY, "--config.snapshot.period_s=1000")
  next(line for line in process.stdout if "running" in line)
  process.send_signal(signal.SIGUSR1)  # saves, without stopping the run
  run.wait_for_snapshots(1, process)
  process.kill()
  end(process, status=-signal.SIGKILL)
  program = ("-c", _KILLED_IN_A_SNAPSHOT)
  process = run.resume("--config.snapshot.period_s=0.2", program=program)
  end(process, status=-signal.SIGKILL)
  assert [p.name for p in run.folder.snapshots.glob(".0*")] == [".000003"]
  assert run.snapshots.newest().number == 2
  process = run.resume()
  run.wait_for_snapshots(2, process)
  process.kill()
  end(process, status=-signal.SIGKILL)
  end(run.resume(*_FAST))
  assert_equal_to(run, whole)


@pytest.mark.chaos
def test_lost_snapshots_are_restored_from_the_store(tmp_path, whole):
  run = Run(tmp_path)
  url = f"--config.snapshot.url={tmp_path / 'shared'}"
  end(run.start(limit(2 * _PERIOD), url))
  shutil.rmtree(run.folder.snapshots)
  assert "resumes from snapshot 1" in end(run.resume(limit(STEPS)))
  assert_equal_to(run, whole)


def test_a_second_ctrl_c_ends_the_run_at_once(tmp_path):
  run = Run(tmp_path)
  process = run.start(limit(0), program=("-c", _HANGS_IN_A_SNAPSHOT))
  next(line for line in process.stdout if "running" in line)
  process.send_signal(signal.SIGINT)
  next(line for line in process.stdout if "saving" in line)
  process.send_signal(signal.SIGINT)
  printed = end(process, status=1)
  assert "killed at once" in printed and "Traceback" not in printed
  assert list(run.folder.snapshots.iterdir()) == []


@pytest.mark.chaos
def test_damaged_snapshots_are_skipped(tmp_path, whole):
  run = Run(tmp_path)
  end(run.start(limit(50), "--config.snapshot.keep=3"))
  end(run.resume(limit(100)))
  end(run.resume(limit(150)))
  run.damage(2, "table/records.npy")
  run.damage(3, "single.pkl")
  printed = end(run.resume(limit(STEPS)))
  assert "snapshot 3 is damaged and not used" in printed
  assert "resumes from snapshot 1" in printed
  assert_equal_to(run, whole)


@pytest.mark.chaos
def test_environments_that_cannot_be_saved_start_new_episodes(tmp_path):
  run = Run(tmp_path)
  flags = (
    "--config.environment.name=LunarLander-v3",
    "--config.topology.environments_per_worker=8",
  )
  printed = end(run.start(limit(40), *flags))
  assert printed.count("cannot be saved during an episode") == 1
  before = run_counters.RunCounters.read(run.snapshots.newest().path)
  end(run.resume(limit(80)))
  after = run_counters.RunCounters.read(run.snapshots.newest().path)
  assert before.status.trainer_steps == 40
  assert after.status.trainer_steps == 80
  # An update takes 64 samples, and each insert grants 8. The restart drops the
  # unfinished transitions once, those of n steps in each environment.
  unfinished = 8 * run.folder.read_config().adder.n_step
  made = after.status.env_steps - before.status.env_steps
  assert 8 * 40 <= made <= 8 * 40 + unfinished


def test_a_snapshot_that_does_not_fit_prints_one_line(tmp_path, whole):
  run = Run(tmp_path)
  shutil.copytree(whole.folder.path, run.folder.path)
  newest = run.snapshots.newest()
  with run.snapshots.writing() as path:
    for file in newest.path.rglob("*"):
      if file.is_file() and file.name != "manifest.json":
        copy = path / file.relative_to(newest.path)
        copy.parent.mkdir(exist_ok=True)
        copy.write_bytes(file.read_bytes())
    np.save(path / "table" / "records.npy", np.zeros((5, 3), np.uint8))
  process = run.resume(limit(STEPS + 60))
  _, printed = process.communicate(timeout=_DEADLINE_S)
  assert process.returncode == 1 and printed.count("\n") == 1, printed
  assert "train: " in printed and "resume with" in printed


# Each step takes a second, and so the test whether it can be saved minutes.
_SLOW_ENVIRONMENT = """
import time

from gymnasium.envs.classic_control import cartpole


class Slow(cartpole.CartPoleEnv):
  steps = 0

  def step(self, action):
    self.steps += 1
    time.sleep(float(self.steps > 20))
    return super().step(action)
"""


def test_a_signal_stops_the_test_of_saving(tmp_path, monkeypatch):
  (tmp_path / "slow.py").write_text(_SLOW_ENVIRONMENT)
  monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
  run = Run(tmp_path)
  process = run.start("--config.environment.name=slow:Slow")
  assert process.stdout is not None
  while "run folder" not in (line := process.stdout.readline()):
    assert line
  time.sleep(1.0)  # now the test steps the environments
  process.send_signal(signal.SIGINT)
  end(process)
  summary = json.loads(run.folder.summary.read_text())
  assert (summary["env_steps"], summary["stopped_because"]) == (0, "SIGINT")
  assert run.snapshots.newest() is not None


# Opens a file in an episode's second half, which pickle can't save.
_OPENING_ENVIRONMENT = """
import os

from gymnasium.envs.classic_control import cartpole


class Opening(cartpole.CartPoleEnv):
  steps = 0

  def step(self, action):
    self.steps += 1
    if self.steps == 300:
      self.file = open(os.devnull)
    return super().step(action)
"""


def test_a_run_continues_if_its_environments_can_no_longer_be_saved(
  tmp_path, monkeypatch
):
  (tmp_path / "opening.py").write_text(_OPENING_ENVIRONMENT)
  monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
  run = Run(tmp_path)
  named = "--config.environment.name=opening:Opening"
  output = end(run.start(named, limit(STEPS)))
  assert output.count("can no longer be saved during an episode") == 1
  summary = json.loads(run.folder.summary.read_text())
  assert summary["trainer_steps"] == STEPS
  end(run.resume(limit(STEPS + _PERIOD)))
  summary = json.loads(run.folder.summary.read_text())
  assert summary["trainer_steps"] == STEPS + _PERIOD


_HINDSIGHT = (
  "--config.environment.name=tests.environments.toys:BitFlipping-v0",
  "--config.adder.n_step=1",
  "--config.replay.sampler=uniform",
  "--config.replay.hindsight=future",
)
_MIXED = ("--config.dataset.path={}", "--config.dataset.ratio=0.25")


@pytest.mark.parametrize("flags", [_HINDSIGHT, _MIXED])
def test_a_resumed_run_goes_on_with_what_it_had(tmp_path, flags):
  """Unfinished episodes are relabelled; batches have the same recorded part."""
  recorded.record(tmp_path / "recorded")
  flags = [flag.format(tmp_path / "recorded") for flag in flags]
  whole, run = Run(tmp_path / "whole"), Run(tmp_path / "resumed")
  end(whole.start(limit(60), *flags))
  end(run.start(limit(_PERIOD), *flags))  # an evaluation follows
  end(run.resume(limit(60)))
  one, other = (
    snapshot_contents.read(x.snapshots.newest().path) for x in (whole, run)
  )
  assert one == other
  assert one["table"]
