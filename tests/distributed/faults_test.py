"""Faults of a run's surroundings: fork server, terminal, environment."""

import pty
import re
import termios
import time

import psutil
import pytest

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(240)]

_NOISY = """
import os
import subprocess
import gymnasium
from gymnasium.envs.classic_control import cartpole

class Noisy(cartpole.CartPoleEnv):
  def __init__(self, **kwargs):
    super().__init__(**kwargs)
    self._child = subprocess.Popen(["sleep", "600"], start_new_session=True)

  def step(self, action):
    print("noise " * 500)
    return super().step(action)

gymnasium.register("Noisy-v0", Noisy, max_episode_steps=500)
"""

_LEAVING = """
import gymnasium
from gymnasium.envs.classic_control import cartpole

class Leaving(cartpole.CartPoleEnv):
  steps = 0

  def step(self, action):
    self.steps += 1
    return super().step(action)

  def close(self):
    if self.steps > 1:
      raise ValueError("left")

gymnasium.register("Leaving-v0", Leaving, max_episode_steps=500)
"""


def fork_server(run):
  """Returns the process that forks the nodes, or None while there is none."""
  found = [
    process
    for process in psutil.Process(run.launcher.pid).children()
    if process.status() != psutil.STATUS_ZOMBIE
    and "processes import forking" in " ".join(process.cmdline())
  ]
  # Nodes that an earlier fork server forked have the same command line, and are
  # older.
  return max(found, key=psutil.Process.create_time, default=None)


def kill_fork_server(run):
  """Kills the fork server; waits until the launcher has started another."""
  before = fork_server(run)
  begun_s = before.create_time()
  before.kill()

  def is_back():
    now = fork_server(run)
    return now is not None and now.create_time() > begun_s

  run.wait_until(is_back)


def end(run):
  run.launcher.terminate()
  assert run.wait() == 0, run.stderr
  assert run.stderr == ""
  run.check_nothing_left()


def test_the_fork_server_is_killed(start_run):
  run = start_run()
  run.wait_until(lambda: fork_server(run))
  kill_fork_server(run)  # during its imports
  run.wait_until_learning()
  # It counts as a resume only if the nodes were waiting for it.
  before, steps = run.status()["resumes"], run.status()["trainer_steps"]
  kill_fork_server(run)
  run.wait_until(lambda: run.status()["resumes"] == before + 1)
  run.wait_until(lambda: run.status()["trainer_steps"] > steps + 200)
  ends = run.log("runner").count("the fork server was ended by SIGKILL")
  assert ends == before + 1
  end(run)


def test_a_script_that_ends_in_the_command(start_run):
  begun_s = time.time()
  run = start_run(
    "--config.limits.trainer_steps=50", script="trap '' CHLD; sleep 5"
  )
  assert run.wait() == 0, run.stderr
  assert run.stderr == ""
  assert run.summary["wall_s"] < time.time() - begun_s - 5.0
  run.check_nothing_left()


def test_a_launcher_that_stalls(start_run):
  run = start_run()
  run.wait_until_learning()
  before = run.nodes()
  launcher = psutil.Process(run.launcher.pid)
  launcher.suspend()  # as Ctrl-Z does
  time.sleep(5.0)  # the nodes' calls have timed out
  launcher.resume()
  steps = run.status()["trainer_steps"]
  run.wait_until(lambda: run.status()["trainer_steps"] > steps + 200)
  assert run.nodes() == before
  end(run)


def test_a_terminal_that_is_not_read_stops_nothing(start_run, monkeypatch):
  monkeypatch.setenv("TERM", "xterm")
  ours, theirs = pty.openpty()
  with open(ours, "rb"), open(theirs, "wb"):
    run = start_run(terminal=theirs)
    run.wait_until(lambda: run.processes("worker/1"))
    run.wait_until(lambda: run.status()["phase"] == "running")
    termios.tcflow(theirs, termios.TCOOFF)  # Ctrl-S
    time.sleep(2.0)
    (worker,) = run.processes("worker/1")
    worker.kill()
    run.wait_until(lambda: run.status()["node_restarts"] == {"worker/1": 1})
    end(run)
  assert run.summary["stopped_because"] == "SIGTERM"


# In mode single, a test of saving closes two environments before the start. The
# evaluator's environment fails only after an evaluation.
@pytest.mark.parametrize(
  ("mode", "counts", "prefix"),
  [("async", (1,), r"node \w+/\d failed: "), ("single", (3, 4), ".*")],
)
def test_an_environment_that_fails_in_close_is_named(
  start_run, tmp_path, monkeypatch, mode, counts, prefix
):
  (tmp_path / "leaving.py").write_text(_LEAVING)
  monkeypatch.setenv("PYTHONPATH", str(tmp_path))
  run = start_run(
    "--config.environment.name=leaving:Leaving-v0", f"--mode={mode}"
  )
  run.wait_until_learning()
  run.launcher.terminate()
  assert run.wait() == 0
  lines = run.stderr.splitlines()
  assert len(lines) in counts
  for line in lines:
    assert re.match(f"warning: {prefix}environment leaving:", line)
    assert "(index 0" in line
    assert "close() raised ValueError: left" in line


def test_output_and_child_processes_of_an_environment(
  start_run, tmp_path, monkeypatch
):
  (tmp_path / "noisy.py").write_text(_NOISY)
  monkeypatch.setenv("PYTHONPATH", str(tmp_path))
  run = start_run("--config.environment.name=noisy:Noisy-v0")
  run.wait_until_learning()
  log = run.path / "logs" / "worker" / "0"
  run.wait_until(lambda: b"bytes of this log were" in log.read_bytes()[:99])
  for _ in range(50):
    assert log.stat().st_size < 20_000_000
    time.sleep(0.1)

  def worker():
    """Returns the worker's own process, or None.

    Its child processes write to the worker's log too, but have no children.
    """
    found = run.processes("worker/1")
    return next((process for process in found if process.children()), None)

  before = worker()
  left = before.children()
  before.kill()
  run.wait_until(lambda: not any(child.is_running() for child in left))
  run.wait_until(worker)
  end(run)
