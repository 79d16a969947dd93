"""The page on own algorithms: its example trains from any folder."""

import json
import os
import pathlib
import re
import subprocess
import sys

import pytest

_ROOT = pathlib.Path(__file__).resolve().parents[2]
_LINES = 150  # the page promises a short example


@pytest.fixture
def folder(tmp_path):
  page = (_ROOT / "docs/own_algorithm.md").read_text()
  (code,) = re.findall(r"```python\n(.*?)```", page, re.S)
  assert code.count("\n") < _LINES
  (tmp_path / "a2c.py").write_text(code)
  return tmp_path


def train(folder, *arguments):
  """Trains from the project's folder, with the example on the Python path."""
  return subprocess.run(
    [
      *(
        sys.executable,
        "-m",
        "slipway.launch.train",
        f"--config={folder / 'a2c.py'}",
      ),
      *(f"--run_dir={folder / 'runs'}", "--name=a-run", *arguments),
    ],
    cwd=_ROOT,
    env={**os.environ, "PYTHONPATH": str(folder)},
    capture_output=True,
    text=True,
    timeout=110,
  )


def summary(folder):
  return json.loads((folder / "runs/a-run/summary.json").read_text())


def test_it_learns_in_one_process(folder):
  done = train(
    folder, "--mode=single", "--config.limits.target_return=150",
    "--config.limits.trainer_steps=3_000",
  )  # fmt: skip
  assert done.returncode == 0, done.stderr
  assert "target_return" in json.dumps(summary(folder)), summary(folder)


def test_it_runs_in_processes(folder):
  done = train(folder, "--config.limits.trainer_steps=50")
  assert done.returncode == 0, done.stderr


def test_a_range_of_its_own_fields_is_checked_before_anything_starts(folder):
  done = train(folder, "--config.learner.entropy_weight=-1.0")
  assert done.returncode == 2
  assert "config.learner.entropy_weight=-1.0" in done.stderr
  assert done.stderr.count("\n") == 1
  assert not (folder / "runs").exists()
