"""Runs in one process whose environment hangs: one line, results, the end."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

pytestmark = [pytest.mark.runs, pytest.mark.timeout(300)]

# Hangs after some steps, so that the check before the start finds nothing.
_ENVIRONMENT = """
import os
import time

from gymnasium.envs.classic_control import cartpole


class Hangs(cartpole.CartPoleEnv):
  steps = 0

  def step(self, action):
    self.steps += 1
    if self.steps > int(os.environ["STEPS"]):
      time.sleep(600)
    return super().step(action)
"""


@pytest.mark.parametrize(
  ("flag", "steps"),
  [
    ("--mode=single", 300),
    ("--mode=single", 30),  # while the run tests whether it can be saved
    ("--launch=local_mt", 300),
  ],
)
def test_an_environment_that_hangs_ends_the_run(tmp_path, flag, steps):
  (tmp_path / "hangs.py").write_text(_ENVIRONMENT)
  command = [
    *(
      sys.executable,
      "-m",
      "slipway.launch.commands.train",
      flag,
      "--name=first",
    ),
    *(f"--run_dir={tmp_path}", "--config=dqn:cartpole"),
    "--config.environment.name=hangs:Hangs",
    "--config.environment.step_timeout_s=1.0",
    "--config.limits.target_return=inf",
    "--config.limits.wall_clock_s=200",
  ]
  path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
  process = subprocess.Popen(
    command,
    stdout=subprocess.DEVNULL,
    stderr=subprocess.PIPE,
    text=True,
    env={**os.environ, "PYTHONPATH": path, "STEPS": str(steps)},
  )
  _, printed = process.communicate(timeout=200)
  assert process.returncode == 1
  assert not [*pathlib.Path("/dev/shm").glob(f"slipway-{process.pid}-*")]
  line = next(x for x in printed.splitlines() if x.startswith("train: "))
  assert line.startswith("train: environment hangs:Hangs (index ")
  assert "step() has not returned for " in line
  assert "config.environment.step_timeout_s=1" in line
  assert "time.sleep(600)" in printed
  assert "excepthook" not in printed
  assert "Exception in thread" not in printed
  if flag == "--mode=single":
    summary = json.loads((tmp_path / "first" / "summary.json").read_text())
    assert summary["stopped_because"] == "failure"
    assert (summary["env_steps"] > 0) == (steps == 300)
