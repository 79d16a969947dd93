"""Test of a run in mode 'single' whose first evaluation never ends."""

import subprocess
import sys

import gymnasium
import numpy as np
import pytest

# The test starts a process, on a machine that may be busy.
pytestmark = [pytest.mark.runs, pytest.mark.timeout(400)]


class Endless(gymnasium.Env):
  """A task that never ends."""

  observation_space = gymnasium.spaces.Box(-1, 1, (1,), np.float32)
  action_space = gymnasium.spaces.Discrete(2)

  def reset(self, *, seed=None, options=None):
    return np.zeros(1, np.float32), {}

  def step(self, action):
    return np.zeros(1, np.float32), 0.5, False, False, {}


def test_the_stall_names_the_evaluation(tmp_path):
  training = subprocess.Popen(
    [
      *(sys.executable, "-m", "slipway.launch.commands.train"),
      *("--config=dqn:cartpole", "--mode=single", f"--run_dir={tmp_path}"),
      "--config.environment.name=tests.launch.launchers.endless_test:Endless",
      "--config.evaluation.period_steps=10",
      "--config.watchdog.period_s=4",
      "--config.limits.wall_clock_s=300",
    ],
    stdout=subprocess.PIPE,
    text=True,
  )
  assert training.stdout is not None
  reason = "the trainer waits for an evaluation's episodes to end"
  named = any(reason in line for line in training.stdout)
  training.terminate()
  training.communicate()
  assert named
  assert training.returncode == 0
