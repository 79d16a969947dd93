"""Single: stopped or killed anyhow and resumed, equal to what never stopped."""

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
from tests.launch import snapshot_contents

STEPS = 210  # trainer steps, through which some runs are interrupted
_PERIOD = 35  # trainer steps between evaluations
_TIMED = {"wall_s", "env_steps_per_s", "trainer_steps_per_s"}
_DEADLINE_S = 90.0
_FLAGS = (
  "--config.limits.target_return=inf",
  "--config.network.hidden_sizes=(32,)",
  "--config.exploration.schedule=linear",
  "--config.replay.min_size=200",
  "--config.replay.capacity=4000",
  f"--config.evaluation.period_steps={_PERIOD}",
)

# Ends its process in the middle of its second snapshot.
_KILLED_IN_A_SNAPSHOT = """
import os, signal, sys
from slipway.launch import train
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
  # Far from its limit when it is interrupted; no result depends on time.
  "--config.rates.environment_steps_per_s=200",
  "--config.snapshot.period_s=0.2",
)
_FAST = ("--config.rates.environment_steps_per_s=0",)

# Several starts of a process on a machine that may be busy.
pytestmark = pytest.mark.timeout(400)


# Never gets through with its first snapshot.
_HANGS_IN_A_SNAPSHOT = """
import signal, sys
from slipway.launch import train
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
  """A run in a folder, and the process that is at it."""

  def __init__(self, run_dir, name="a-run"):
    self.folder = run_folder.RunFolder(run_dir / name)
    self._new = (
      "--mode=single", f"--name={name}", f"--run_dir={run_dir}", *_FLAGS,
    )  # fmt: skip

  @property
  def snapshots(self):
    return snapshot_store.SnapshotStore(self.folder, keep=2)

  def start(self, *flags, program=("-m", "slipway.launch.train")):
    """Begins the run."""
    return self._start(program, *self._new, *flags)

  def resume(self, *flags, program=("-m", "slipway.launch.train")):
    """Goes on with it."""
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
    """Waits for so many more than there were when the process was started."""
    deadline_s = time.monotonic() + _DEADLINE_S
    while self._newest_number() < self._number_at_start + count:
      assert process.poll() is None, process.communicate()
      assert time.monotonic() < deadline_s
      time.sleep(0.01)

  def damage(self, number, name):
    path = self.folder.snapshots / f"{number:06d}" / name
    os.truncate(path, path.stat().st_size // 2)


def end(process, status=0):
  """Waits; returns what was said."""
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
  """All that a run's newest snapshot holds, in what `==` compares by bits."""
  contents = snapshot_contents.read(run.snapshots.newest().path)
  assert sum(map(len, contents["learner"].values())) > 4 * 500
  assert len(contents["table"]) == 3
  return contents


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
  """Never stopped before its limit."""
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
  end(run.start(limit(_PERIOD)))  # of which its last evaluation is
  for number in (signal.SIGINT, signal.SIGTERM):
    process = run.resume(limit(STEPS), *_SLOWLY)
    run.wait_for_snapshots(1, process)
    process.send_signal(number)
    assert number.name in end(process)
  process = run.resume(*_FAST, limit(0), _environment_steps(1_200))
  assert "resumes from snapshot" in end(process)
  steps = json.loads(run.folder.summary.read_text())["env_steps"]
  assert 1_200 <= steps < 1_200 + 32  # a step of all environments
  end(run.resume(limit(STEPS), _environment_steps(0)))
  assert_equal_to(run, whole)


@pytest.mark.chaos
def test_killed_in_all_ways(tmp_path, whole):
  run = Run(tmp_path)
  process = run.start(limit(STEPS), *_SLOWLY, "--config.snapshot.period_s=1000")
  next(line for line in process.stdout if "running" in line)
  process.send_signal(signal.SIGUSR1)  # a snapshot, and it goes on
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
def test_its_snapshots_lost_but_not_those_of_the_store(tmp_path, whole):
  run = Run(tmp_path)
  url = f"--config.snapshot.url={tmp_path / 'shared'}"
  end(run.start(limit(2 * _PERIOD), url))
  shutil.rmtree(run.folder.snapshots)
  assert "resumes from snapshot 1" in end(run.resume(limit(STEPS)))
  assert_equal_to(run, whole)


def test_ctrl_c_twice_ends_at_once(tmp_path):
  run = Run(tmp_path)
  process = run.start(limit(0), program=("-c", _HANGS_IN_A_SNAPSHOT))
  next(line for line in process.stdout if "running" in line)
  process.send_signal(signal.SIGINT)
  next(line for line in process.stdout if "saving" in line)
  process.send_signal(signal.SIGINT)
  said = end(process, status=1)
  assert "killed at once" in said and "Traceback" not in said
  assert list(run.folder.snapshots.iterdir()) == []


@pytest.mark.chaos
def test_damaged_snapshots_are_passed_over(tmp_path, whole):
  run = Run(tmp_path)
  end(run.start(limit(50), "--config.snapshot.keep=3"))
  end(run.resume(limit(100)))
  end(run.resume(limit(150)))
  run.damage(2, "table/records.npy")
  run.damage(3, "single.pkl")
  said = end(run.resume(limit(STEPS)))
  assert "snapshot 3 is damaged and not used" in said
  assert "resumes from snapshot 1" in said
  assert_equal_to(run, whole)


@pytest.mark.chaos
def test_what_cannot_be_saved_goes_on_with_new_episodes(tmp_path):
  run = Run(tmp_path)
  flags = (
    "--config.environment.name=LunarLander-v3",
    "--config.topology.environments_per_worker=8",
  )
  said = end(run.start(limit(40), *flags))
  assert said.count("cannot be saved during an episode") == 1
  before = run_counters.RunCounters.read(run.snapshots.newest().path)
  end(run.resume(limit(80)))
  after = run_counters.RunCounters.read(run.snapshots.newest().path)
  assert (before.trainer_steps, after.trainer_steps) == (40, 80)
  # 64 samples an update at 8 an insert; open transitions are given up once.
  made = after.environment_steps - before.environment_steps
  assert 8 * 40 - 64 <= made <= 8 * 40 + 64


def test_a_snapshot_that_does_not_fit_is_one_line(tmp_path, whole):
  run = Run(tmp_path)
  shutil.copytree(whole.folder.path, run.folder.path)
  newest = run.snapshots.newest()
  with run.snapshots.writing(newest.step) as path:
    for file in newest.path.rglob("*"):
      if file.is_file() and file.name != "manifest.json":
        copy = path / file.relative_to(newest.path)
        copy.parent.mkdir(exist_ok=True)
        copy.write_bytes(file.read_bytes())
    np.save(path / "table" / "records.npy", np.zeros((5, 3), np.uint8))
  process = run.resume(limit(STEPS + 60))
  _, said = process.communicate(timeout=_DEADLINE_S)
  assert process.returncode == 1 and said.count("\n") == 1, said
  assert "train: " in said and "resume with" in said
