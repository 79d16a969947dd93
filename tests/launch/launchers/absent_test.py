"""Tests of runs on recorded episodes whose environment is absent."""

import json
import shutil
import subprocess
import sys

import numpy as np
import pytest

import slipway
from slipway.launch.commands import cli
from slipway.launch.runs import run_folder
from tests.environments import recorded
from tests.launch import errors

# Each test starts processes, on a machine that may be busy.
pytestmark = [pytest.mark.runs, pytest.mark.timeout(400)]


def train(tmp_path, *flags):
  done = subprocess.run(
    [sys.executable, "-m", "slipway.launch.commands.train", *flags],
    capture_output=True,
    text=True,
    cwd=tmp_path,
  )
  assert done.returncode == 0, done.stderr
  return done.stdout


def begin(tmp_path, mode):
  recorded.record(tmp_path / "episodes", "Pendulum-v1", 410)
  return train(
    tmp_path,
    "--config=td3_bc",
    f"--mode={mode}",
    "--name=a",
    "--config.dataset.path=episodes",
    "--config.environment.name=",
    "--config.network.hidden_sizes=(16,)",
    "--config.limits.trainer_steps=40",
  )


@pytest.mark.parametrize("mode", ["single", "async"])
def test_a_run_without_an_environment(tmp_path, mode, capsys):
  output = begin(tmp_path, mode)
  run = tmp_path / "runs" / "a"
  summary = json.loads((run / "summary.json").read_text())
  assert summary["trainer_steps"] == 40
  assert summary["evaluation"]["count"] == 0
  assert "evaluator" not in summary["nodes"]
  assert not run_folder.RunFolder(run).curves_png.exists()
  assert "--which=all --dataset=episodes" in output
  # Policies need neither the environment nor the episodes.
  shutil.move(tmp_path / "episodes", tmp_path / "elsewhere")
  policy = slipway.load(run, "latest")
  assert policy.action_space.high == [2.0]
  action = policy(np.float32([[1, 0, 0], [0, 1, 3]]))
  assert action.shape == (2, 1) and (abs(action) <= 2.0).all()
  assert cli.run(["slipway", "evaluate", f"--run={run}"]) == 2
  errors.check_printed(capsys, "--dataset=FOLDER")
  flags = [f"--dataset={tmp_path / 'elsewhere'}", "--updates=100"]
  assert cli.run(["slipway", "evaluate", f"--run={run}", *flags]) == 2
  errors.check_printed(capsys, "which='latest'")
  flags += [f"--run={run}", "--which=latest"]
  assert cli.run(["slipway", "evaluate", *flags]) == 0
  assert "fitted Q -" in capsys.readouterr().out


def test_a_run_without_an_environment_is_resumed(tmp_path):
  begin(tmp_path, "single")
  train(tmp_path, "--resume=runs/a", "--config.limits.trainer_steps=60")
  summary = json.loads((tmp_path / "runs/a/summary.json").read_text())
  assert summary["trainer_steps"] == 60
