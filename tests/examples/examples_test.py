"""Examples: each one runs in its own folder."""

import contextlib
import io
import json
import os
import pathlib
import shutil
import subprocess
import sys
import time

import numpy as np
import pytest

from slipway.environments import factory, recorder
from tests.environments import given

_EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples"

pytestmark = [pytest.mark.examples, pytest.mark.timeout(600)]


def run(folder, *command):
  """Runs a command in a folder; returns its output."""
  done = subprocess.run(
    command,
    cwd=folder,
    env={
      **os.environ,
      "PATH": f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}",
    },
    capture_output=True,
    text=True,
    timeout=500,
    check=False,
  )
  assert done.returncode == 0, done.stdout + done.stderr
  return done.stdout


def summary(run_folder):
  return json.loads((run_folder / "summary.json").read_text())


def test_own_environment(tmp_path):
  shutil.copytree(_EXAMPLES / "own_environment", tmp_path, dirs_exist_ok=True)
  out = run(tmp_path, sys.executable, "train.py")
  assert "reward 1.0 after 9 steps" in out


def test_own_network(tmp_path):
  shutil.copy(_EXAMPLES / "own_network" / "residual.py", tmp_path)
  run(
    *(tmp_path, "slipway", "train", "--config=ppo:cartpole", "--name=own"),
    "--config.network.torso=residual:torso",
    "--config.limits.target_return=150",
  )
  assert summary(tmp_path / "runs/own")["stopped_because"] == "target_return"


@pytest.mark.parametrize("mode", ["single", "sync", "async"])
def test_own_algorithm(tmp_path, mode):
  run(
    *(tmp_path, "slipway", "train", f"--mode={mode}", "--name=own"),
    f"--config={_EXAMPLES / 'own_algorithm' / 'a2c.py'}",
    "--config.limits.target_return=100",
    # Plain A2C does not keep a return that it has reached, least of all in
    # async.
    "--config.limits.target_evaluations=1",
    "--config.limits.trainer_steps=3_000",
  )
  assert summary(tmp_path / "runs/own")["stopped_because"] == (
    "target_return"
  ), mode


def record_controller(folder):
  """Records a controller of CartPole that pushes to where the pole falls."""
  config = given.config_of("CartPole-v1")
  environment = factory.make(config, 4, seed=3)
  with recorder.Recorder(folder, "a", config, environment) as writer:
    step = environment.reset()
    writer.add(None, step)
    for _ in range(600):
      falls_to = step.observation[:, 2] + step.observation[:, 3] > 0
      actions = falls_to.astype(np.int32)
      step = environment.step(actions)
      writer.add(actions, step)
  environment.close()


def test_own_algorithm_on_recorded_data(tmp_path):
  record_controller(tmp_path / "recorded")
  run(
    *(tmp_path, "slipway", "train", "--name=own"),
    f"--config={_EXAMPLES / 'own_algorithm' / 'recurrent_cloning.py'}",
    "--config.dataset.path=recorded",
    "--config.limits.target_return=100",
    "--config.limits.trainer_steps=2_000",
  )
  assert summary(tmp_path / "runs/own")["stopped_because"] == "target_return"


def test_own_algorithm_checks_its_fields(tmp_path):
  done = subprocess.run(
    [
      *(sys.executable, "-m", "slipway.launch.commands.train", "--name=own"),
      f"--config={_EXAMPLES / 'own_algorithm' / 'a2c.py'}",
      "--config.learner.entropy_weight=-1.0",
    ],
    cwd=tmp_path,
    capture_output=True,
    text=True,
    check=False,
  )
  assert done.returncode == 2
  assert "config.learner.entropy_weight=-1.0" in done.stderr
  assert done.stderr.count("\n") == 1


def test_external_environment(tmp_path):
  shutil.copy(_EXAMPLES / "external_environment" / "robot.py", tmp_path)
  training = subprocess.Popen(
    [
      *(sys.executable, "-m", "slipway.launch.commands.train", "--name=robot"),
      "--config=apex_dqn:cartpole",
      "--config.environment.name=robot:Robot",
      "--config.environment.external=True",
      "--config.topology.workers=0",
      "--config.limits.environment_steps=3_000",
    ],
    cwd=tmp_path,
    stdout=subprocess.DEVNULL,
  )
  try:
    while not (tmp_path / "runs/robot/control.json").exists():
      assert training.poll() is None
      time.sleep(0.1)
    out = run(tmp_path, sys.executable, "robot.py", "runs/robot")
    assert "environment steps was reached" in out
    assert training.wait(60) == 0
  finally:
    training.kill()
  found = summary(tmp_path / "runs/robot")
  assert found["env_steps"] >= 3_000
  assert found["trainer_steps"] > 0


def test_seeds(tmp_path):
  shutil.copy(_EXAMPLES / "seeds.py", tmp_path)
  out = run(tmp_path, sys.executable, "seeds.py", "4")
  assert "seed 4: mean of the last" in out
  assert "median of 1 seeds" in out


def test_notebook(tmp_path, monkeypatch):
  """Runs the notebook's cells in order; as in a kernel, without a terminal."""
  cells = json.loads((_EXAMPLES / "notebook.ipynb").read_text())["cells"]
  sources = ["".join(c["source"]) for c in cells if c["cell_type"] == "code"]
  monkeypatch.chdir(tmp_path)
  names = {}
  with contextlib.redirect_stdout(io.StringIO()) as out:
    for source in sources:
      exec(compile(source, "cell", "exec"), names)
  assert "run folder: runs/notebook" in out.getvalue()
  assert names["total"] > 20
  assert names["result"].curves["eval_return"].size != 0
