"""Tests of the check of an environment before a run starts."""

import contextlib
import signal
import subprocess
import sys
import time

import gymnasium
import numpy as np
import psutil
import pytest
from gymnasium.envs.classic_control import cartpole

from slipway.launch.checks import environment_check
from tests.environments import given

# Environments that start a child process, write its pid to a file, and then
# hang.
_HANGING = """
import pathlib, subprocess, time
from gymnasium.envs.classic_control import cartpole

def hang():
  child = subprocess.Popen(["sleep", "600"])
  pathlib.Path("begun.new").write_text(str(child.pid))
  pathlib.Path("begun.new").rename("begun")
  time.sleep(600)

class Constructor(cartpole.CartPoleEnv):
  def __init__(self):
    hang()

class Reset(cartpole.CartPoleEnv):
  def reset(self, **kwargs):
    hang()

class Step(cartpole.CartPoleEnv):
  def step(self, action):
    hang()
"""


@pytest.fixture
def start(tmp_path):
  """Yields a function that starts a command with a hanging environment."""
  (tmp_path / "hangs.py").write_text(_HANGING)
  with contextlib.ExitStack() as stack:

    def start_command(command, name, *flags):
      process = subprocess.Popen(
        [
          *(sys.executable, "-m", "slipway.launch.commands.cli", command),
          *(f"--config.environment.name=hangs:{name}", "--name=a", *flags),
        ],
        cwd=tmp_path,
        # Not a pipe, which the environment's child process could keep open.
        stderr=stack.enter_context(open(tmp_path / "said", "w")),
      )
      stack.callback(process.wait)
      stack.callback(process.kill)
      return process

    yield start_command


@pytest.mark.parametrize("command", ["train", "sweep"])
@pytest.mark.parametrize(
  ("name", "call"), [("Reset", "reset()"), ("Step", "step()")]
)
def test_a_call_that_hangs_ends_the_command(
  start, tmp_path, command, name, call
):
  limit = "--config.environment.step_timeout_s=0.5"
  process = start(command, name, limit)
  assert process.wait(100) == 2
  printed = (tmp_path / "said").read_text()
  line = printed.splitlines()[0]
  assert line.startswith(f"{command}: environment hangs:{name} (index 0")
  assert f"{call} has not returned for " in line
  assert "config.environment.step_timeout_s=0.5" in line
  assert "time.sleep(600)" in printed
  assert not psutil.pid_exists(int((tmp_path / "begun").read_text()))
  assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_command(start, tmp_path, number):
  process = start("train", "Constructor")
  while not (tmp_path / "begun").exists():
    assert process.poll() is None
    time.sleep(0.05)
  process.send_signal(number)
  assert process.wait(60) == 0
  line = f"train: ended by {signal.Signals(number).name} before anything began"
  assert (tmp_path / "said").read_text() == f"{line}\n"
  assert not (tmp_path / "runs").exists()


class _Slow(cartpole.CartPoleEnv):
  """An environment whose constructor takes a second."""

  def __init__(self):
    super().__init__()
    time.sleep(1.0)


def test_a_long_wait_prints_one_line(monkeypatch, capfd):
  monkeypatch.setattr(environment_check, "_NOTICE_AFTER_S", 0.1)
  monkeypatch.setitem(
    gymnasium.registry,
    "Slow-v0",
    gymnasium.envs.registration.EnvSpec("Slow-v0", _Slow),
  )
  config = given.config_of("Slow-v0")
  config.step_timeout_s = 0.5  # does not apply to the constructor
  spec = environment_check.make_spec(config, "train", lambda: None)
  assert spec.observations.shape == (4,)
  (line,) = capfd.readouterr().err.splitlines()
  assert line.startswith("train: still waits")
  assert "Slow-v0" in line
  assert "config.environment.step_timeout_s=0.5" in line


def test_a_short_wait_prints_nothing(capfd):
  config = given.config_of("CartPole-v1")
  config.step_timeout_s = 0.0
  environment_check.make_spec(config, "train", lambda: None)
  assert capfd.readouterr().err == ""


class Armed(gymnasium.Env):
  """An environment that leaves a timer behind."""

  observation_space = gymnasium.spaces.Box(-1, 1, (1,))
  action_space = gymnasium.spaces.Discrete(2)

  def __init__(self):
    signal.setitimer(signal.ITIMER_REAL, 3_600.0)

  def reset(self, *, seed=None, options=None):
    super().reset(seed=seed)
    return np.zeros(1, np.float32), {}

  def step(self, action):
    return np.zeros(1, np.float32), 0.0, True, False, {}


def test_a_timer_of_an_environment_does_not_end_the_command():
  config = given.config_of(f"{__name__}:Armed", {"step_timeout_s": 0.0})
  environment_check.make_spec(config, "train", lambda: None)
  assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
