"""Trainings: `slipway train`, and the numbers that it leaves."""

import json
import subprocess
import sys

import pytest


@pytest.fixture
def train(tmp_path):
  """Runs a training to its end; returns its summary."""

  def train(*flags):
    done = subprocess.run(
      [
        sys.executable,
        "-m",
        "slipway.launch.train",
        "--name=a-run",
        f"--run_dir={tmp_path}",
        *flags,
      ],
      capture_output=True,
      text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads((tmp_path / "a-run" / "summary.json").read_text())

  return train
