"""Bad input: rejected with one line, before a process or file is created."""

import concurrent.futures
import contextlib
import os
import pathlib
import re
import subprocess
import sys

import pytest

import slipway
from slipway.launch.checks import train_flags
from slipway.launch.runs import (
  run_folder,
  run_lock,
  snapshot_store,
)
from tests.launch import saved

_ROOT = pathlib.Path(__file__).resolve().parents[2]

# test id: flags, words that the error line must contain
REJECTED = {
  "unknown environment": (
    ["--config.environment.name=CartPol-v1"],
    ["config.environment.name", "'CartPol-v1'"],
  ),
  "unknown argument of an environment": (
    ["--config.environment.kwargs.gravty=3"],
    ["config.environment", "gravty"],
  ),
  "continuous actions for a discrete agent": (
    ["--config.environment.name=Pendulum-v1"],
    ["config.environment.name", "'Pendulum-v1'", "discrete"],
  ),
  "unknown agent": (["--config.agent=dqnn"], ["config.agent", "'dqnn'", "dqn"]),
  "capacity below a batch": (
    ["--config.replay.capacity=63"],
    ["config.replay.capacity=63", "config.learner.batch_size=64"],
  ),
  "minimum size above the capacity": (
    ["--config.replay.min_size=75_001"],
    ["config.replay.min_size=75001", "config.replay.capacity=75000"],
  ),
  "unknown field": (
    ["--config.replay.capacty=9"],
    ["--config.replay.capacty=9", "--config.replay.capacity"],
  ),
  "wrong type": (
    ["--config.replay.capacity=many"],
    ["--config.replay.capacity=many", "int"],
  ),
  "a tuple of words": (
    ["--config.network.hidden_sizes=(a,b)"],
    ["--config.network.hidden_sizes", "a"],
  ),
  "vectors for a CNN": (
    ["--config.network.torso=nature_cnn"],
    ["config.network.torso", "nature_cnn"],
  ),
  "a folder that is a file": (
    ["--run_dir=pyproject.toml"],
    ["'pyproject.toml'"],
  ),
  "a folder without write permission": (
    ["--run_dir=/proc/self"],
    ["'/proc/self'"],
  ),
  "a name that is a path": (["--name=../a"], ["'../a'"]),
  "a store without its package": (
    ["--config.snapshot.url=s3://bucket/runs"],
    ["config.snapshot.url='s3://bucket/runs'", "s3fs", "another URL"],
  ),
  "a store with an unknown scheme": (
    ["--config.snapshot.url=foo://bucket/runs"],
    ["config.snapshot.url='foo://bucket/runs'", "foo"],
  ),
  "a store that is a file": (
    [f"--config.snapshot.url={_ROOT / 'pyproject.toml'}"],
    ["config.snapshot.url=", "pyproject.toml'", "cannot be written"],
  ),
  "a store with a relative path": (
    ["--config.snapshot.url=runs/shared"],
    ["config.snapshot.url='runs/shared'", "absolute path"],
  ),
  "several processes in mode single": (
    ["--mode=single", "--launch=local_mp"],
    ["--launch=local_mp", "'single'"],
  ),
  "the mode as a config field": (["--config.mode=sync"], ["--mode="]),
  "a folder that is not a run": (
    ["--resume=runs/a"],
    ["'runs/a'", "not a run"],
  ),
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory, run_class):
  """Returns, by test id, the run that its command started, and exit status."""
  start = tmp_path_factory.mktemp("refused")

  def run_command(title):
    folder = start / title.replace(" ", "_")
    folder.mkdir()
    run = run_class(folder, *REJECTED[title][0])
    try:
      return run, run.wait()
    finally:
      run.kill()

  with concurrent.futures.ThreadPoolExecutor(4) as pool:
    return dict(zip(REJECTED, pool.map(run_command, REJECTED), strict=True))


@pytest.mark.parametrize("title", REJECTED)
def test_bad_input(runs, title):
  run, status = runs[title]
  assert status == 2, run.stderr
  (line,) = run.stderr.splitlines()
  assert line.startswith("train: ")
  for words in REJECTED[title][1]:
    assert words in line
  assert run.stdout == ""
  run.check_nothing_left()
  assert not run.path.exists()


_FAULTY = """
import os
import gymnasium
import numpy as np

class Faulty(gymnasium.Env):
  observation_space = gymnasium.spaces.Box(0.0, 1.0, (4,), np.float32)
  action_space = gymnasium.spaces.Discrete(2)
  steps = 0

  def __init__(self, fault):
    self.fault = fault

  def reset(self, *, seed=None, options=None):
    return self.observation_space.sample(), {}

  def step(self, action):
    self.steps += 1
    reward = 1.0
    if self.steps == 100:
      if self.fault == "exits":
        os._exit(0)
      reward = float(self.fault)
    ended = self.steps % 10 == 0
    return self.observation_space.sample(), reward, ended, False, {}

gymnasium.register("Faulty-v0", entry_point=Faulty)
"""


_HOOK = """
def notify(event):
  if event.name in ("start", "end"):
    with open(event.folder / "events.txt", "a") as file:
      file.write(f"{event.name} {event.failed}\\n")
"""


# The evaluator, too, steps the environment, and may be the first to fail.
_NODE = r"node (worker|evaluator)/\d failed: "


@pytest.mark.parametrize(
  ("fault", "flag", "prefix"),
  [
    ("exits", "--mode=single", ""),
    pytest.param("inf", "--mode=single", "", marks=pytest.mark.chaos),
    pytest.param(
      *("exits", "--config.restarts.budget=0", _NODE),
      marks=pytest.mark.chaos,
    ),
    pytest.param(
      *("inf", "--config.restarts.budget=0", _NODE),
      marks=pytest.mark.chaos,
    ),
  ],
)
def test_an_environment_that_fails_later(
  start_run, tmp_path, monkeypatch, fault, flag, prefix
):
  (tmp_path / "faulty.py").write_text(_FAULTY)
  (tmp_path / "my_hook.py").write_text(_HOOK)
  monkeypatch.setenv("PYTHONPATH", str(tmp_path))
  run = start_run(
    "--config.environment.name=faulty:Faulty-v0",
    f"--config.environment.kwargs.fault={fault}",
    "--config.hooks=my_hook:notify",
    "--config.limits.target_return=20",
    flag,
  )
  assert run.wait() == 1, run.stderr
  assert "launch/" not in run.stderr
  assert re.search(f"train: {prefix}environment faulty:Faulty-v0 ", run.stderr)
  assert "step 100): step() r" in run.stderr
  assert run.summary["stopped_because"] == "failure"
  assert (run.path / "curves.png").exists()
  assert (run.path / "events.txt").read_text() == "start False\nend True\n"
  run.check_nothing_left()


# test id: flags besides --resume, words that the error line must contain
REJECTED_RESUMES = {
  "a config": (["--config=dqn"], ["--config", "new run"]),
  "a name": (["--name=other"], ["--name", "new run"]),
  "overwriting": (["--overwrite"], ["--overwrite", "new run"]),
  "a reached limit": (
    ["--config.limits.trainer_steps=1_000"],
    ["config.limits.trainer_steps=1000", "1,500 trainer steps", "raise it"],
  ),
  "another network": (
    ["--config.network.hidden_sizes=(8,)"],
    ["--config.network.hidden_sizes=(8,)", "start a new run"],
  ),
  "another mode": (["--mode=single"], ["--mode=single", "'async'"]),
  "out of range": (
    ["--config.learner.batch_size=0"],
    ["config.learner.batch_size=0"],
  ),
  "minimum size above the capacity": (
    ["--config.replay.min_size=75_001"],
    ["config.replay.min_size=75001", "config.replay.capacity=75000"],
  ),
  "damaged snapshots only": ([], ["no complete snapshot", "start a new run"]),
  "a store that can't be written": (
    ["--config.snapshot.url=/proc/self/runs"],
    ["config.snapshot.url='/proc/self/runs'", "cannot be written"],
  ),
  "active on this machine": ([], [f"process {os.getpid()}", "stop it"]),
}


@pytest.mark.parametrize("title", REJECTED_RESUMES)
def test_a_resume_that_is_rejected(title, tmp_path):
  arguments, expected_words = REJECTED_RESUMES[title]
  folder = run_folder.RunFolder.create(tmp_path, "a-run", overwrite=False)
  config = slipway.load_config("apex_dqn:cartpole")
  folder.write_config(config)
  with snapshot_store.open_store(config, folder).writing() as path:
    saved.COUNTERS.write(path)
  if title == "damaged snapshots only":
    for path in folder.snapshots.glob("*/manifest.json"):
      path.write_text("")
  with contextlib.ExitStack() as held:
    if title == "active on this machine":
      held.enter_context(run_lock.held(folder))
    before = _contents(folder.path)
    done = subprocess.run(
      [
        sys.executable,
        "-m",
        "slipway.launch.commands.train",
        f"--resume={folder.path}",
        *arguments,
      ],
      capture_output=True,
      text=True,
      cwd=_ROOT,
    )
    assert _contents(folder.path) == before
  assert done.returncode == 2, done.stderr
  *warnings, line = done.stderr.splitlines()
  # A warning before the error names the damaged snapshot.
  assert len(warnings) == (title == "damaged snapshots only")
  assert line.startswith("train: ")
  for words in expected_words:
    assert words in line
  assert done.stdout == ""


def test_an_active_run_is_not_overwritten(tmp_path):
  folder = run_folder.RunFolder.create(tmp_path, "a-run", overwrite=False)
  folder.write_config(train_flags.parse(["train"], "").config)
  before = _contents(folder.path)
  with run_lock.held(folder):
    done = subprocess.run(
      [
        *(sys.executable, "-m", "slipway.launch.commands.train", "--overwrite"),
        *("--name=a-run", f"--run_dir={tmp_path}"),
      ],
      capture_output=True,
      text=True,
      cwd=_ROOT,
    )
  assert done.returncode == 2
  (line,) = done.stderr.splitlines()
  assert f"still active, process {os.getpid()} of " in line
  assert _contents(folder.path) == before


def _contents(path):
  """Returns the bytes of each file in a run's folder, and None per folder."""
  return {
    file: file.read_bytes() if file.is_file() else None
    for file in path.rglob("*")
    if file.name != run_folder.LOCK  # which each command locks
  }
