"""Trainings: runs of `slipway train`, and their summaries."""

import json
import subprocess
import sys

import pytest


@pytest.fixture
def train(tmp_path):
  """Returns a function that trains with the given flags to the end.

  The function returns the run's summary.
  """

  def train(*flags):
    done = subprocess.run(
      [
        sys.executable,
        "-m",
        "slipway.launch.commands.train",
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
