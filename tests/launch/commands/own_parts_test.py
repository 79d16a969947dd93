"""Tests that all commands find the user's modules, from any directory."""

import json
import os
import shutil
import subprocess
import sys

import numpy as np
import pytest

import slipway
from slipway.launch.runs import user_modules

pytestmark = pytest.mark.runs

_MODULE = """
import gymnasium
import numpy as np


class Corridor(gymnasium.Env):
  observation_space = gymnasium.spaces.Box(0, 1, (5,))
  action_space = gymnasium.spaces.Discrete(2)

  def reset(self, *, seed=None, options=None):
    super().reset(seed=seed)
    self.place, self.steps = 0, 0
    return np.eye(5, dtype=np.float32)[0], {}

  def step(self, action):
    self.place = max(0, self.place + (1 if action else -1))
    self.steps += 1
    arrived = self.place == 4
    seen = np.eye(5, dtype=np.float32)[self.place]
    return seen, float(arrived), arrived, self.steps == 20, {}


def torso(layers, observation):
  x = layers.ops.float32(observation)
  return layers.ops.tanh(layers.linear("mine/first", x, 8))


def flat(layers, observation):
  return layers.ops.sum(observation, -1)


def graphless(layers, observation):
  return np.tanh(layers.linear("mine/first", observation, 8))


def taken(layers, observation):
  return layers.linear("torso/linear_0", layers.ops.float32(observation), 8)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
  path = tmp_path_factory.mktemp("mine")
  (path / "corridor.py").write_text(_MODULE)
  # A package with the name of one of Slipway's packages.
  (path / "configs").mkdir()
  (path / "configs" / "__init__.py").write_text("raise ImportError('not me')")
  return path


def run(cwd, *arguments, stdout=subprocess.PIPE):
  return subprocess.run(
    [sys.executable, "-m", "slipway.launch.commands.cli", *arguments],
    cwd=cwd,
    stdout=stdout,
    stderr=subprocess.PIPE,
    text=True,
    timeout=110,
    check=False,
  )


_DEFAULT = ("--config=apex_dqn:cartpole", "--config.replay.min_size=100")
_OWN = (
  *_DEFAULT,
  "--config.environment.name=corridor:Corridor",
  "--config.network.torso=corridor:torso",
)


@pytest.fixture(scope="module")
def trained(folder):
  done = run(
    *(folder, "train", *_OWN, "--name=own"),
    *("--config.limits.target_return=inf", "--config.limits.trainer_steps=30"),
  )
  assert done.returncode == 0, done.stderr
  return folder / "runs" / "own"


def test_all_nodes_find_the_modules(trained):
  assert (
    json.loads((trained / "summary.json").read_text())["trainer_steps"] >= 30
  )


@pytest.fixture
def elsewhere(tmp_path):
  """Returns another working directory, with another module of the same name."""
  (tmp_path / "corridor.py").write_text("raise ImportError('of another run')")
  return tmp_path


@pytest.mark.parametrize("command", ["evaluate", "train"])
def test_a_runs_module_precedes_one_of_the_working_directory(
  trained, elsewhere, command
):
  flags = {
    "evaluate": [f"--run={trained}", "--episodes=2"],
    "train": [f"--resume={trained}", "--config.limits.trainer_steps=40"],
  }
  done = run(elsewhere, command, *flags[command])
  assert done.returncode == 0, done.stderr


_LOADS = """
import sys
import slipway
slipway.load(sys.argv[1])
print(sys.modules["corridor"].__file__)
"""


def test_a_policy_is_loaded_with_the_runs_own_module(trained, elsewhere):
  loads = [sys.executable, "-c", _LOADS, str(trained)]
  done = subprocess.run(
    loads, cwd=elsewhere, capture_output=True, text=True, timeout=110
  )
  path = trained.parents[1] / "corridor.py"
  assert done.stdout == f"{path.resolve()}\n", done.stderr


def test_a_new_run_has_the_module_of_the_working_folder(trained, elsewhere):
  done = run(elsewhere, "train", *_OWN, "--name=new")
  assert done.returncode == 2
  assert "of another run" in done.stderr


def test_a_missing_recorded_folder_is_named_once(trained, tmp_path):
  """The module of the working directory is used instead."""
  parts = trained.parents[1] / "corridor.py"
  (tmp_path / "corridor.py").write_text(parts.read_text())
  copy, missing = tmp_path / "copy", tmp_path / "missing"
  shutil.copytree(trained, copy)
  (copy / "python_path.json").write_text(json.dumps([str(missing)]))
  limit = "--config.limits.trainer_steps=60"
  done = run(tmp_path, "train", f"--resume={copy}", limit)
  assert done.returncode == 0, done.stderr
  (line,) = [x for x in done.stderr.splitlines() if str(missing) in x]
  assert "no longer exists" in line


def test_a_policy_has_the_users_network(trained):
  policy = slipway.load(trained)
  assert "mine/first/w" in str(sorted(policy._variables))
  assert policy(np.zeros(5, np.float32)) in (0, 1)


@pytest.mark.parametrize(
  ("flag", "line"),
  [
    ("network.torso=corridor:nothing", "has no attribute 'nothing'"),
    ("network.torso=corridor:flat", r"returns [2] for a batch of 2"),
    ("network.torso=corridor:Corridor", "fails on observations"),
    ("network.torso=corridor:taken", "has the variable 'torso/linear_0/w'"),
    ("network.torso=mlq", "must be one of 'mlp'"),
    ("environment.name=corridor:Corrido", "mean 'corridor:Corridor'?"),
    ("agent=corridor:Corridor", "lacks fields, check"),
  ],
)
def test_a_wrong_component_prints_one_line(folder, flag, line):
  done = run(folder, "train", *_OWN, f"--config.{flag}", "--name=wrong")
  assert done.returncode == 2
  assert line in done.stderr
  assert done.stderr.count("\n") == 1
  assert not (folder / "runs" / "wrong").exists()


def test_a_runtime_error_of_a_network_shows_its_line(folder):
  """TensorFlow raises NotImplementedError, which is a RuntimeError."""
  flags = ("--config.network.torso=corridor:graphless", "--mode=single")
  done = run(folder, "train", *_OWN, *flags, "--name=graphless")
  assert done.returncode == 1
  assert "NotImplementedError" in done.stderr
  assert 'return np.tanh(layers.linear("mine/first"' in done.stderr


# An environment that changes the working directory and starts a thread that
# outlives the run.
_INCONSIDERATE = """
import os, threading, time
import corridor

class Inconsiderate(corridor.Corridor):
  def __init__(self):
    super().__init__()
    os.chdir("/")
    threading.Thread(target=time.sleep, args=(1_000.0,)).start()
"""


@pytest.mark.parametrize("mode", ["single", "async"])
def test_an_environment_neither_moves_the_run_nor_keeps_it(folder, mode):
  """The reader of the standard output has closed it, too."""
  (folder / "inconsiderate.py").write_text(_INCONSIDERATE)
  name = "--config.environment.name=inconsiderate:Inconsiderate"
  limit = "--config.limits.trainer_steps"
  closed, output = os.pipe()
  os.close(closed)
  for flags, steps in (
    ([f"--name={mode}", *_DEFAULT, name], 30),
    ([f"--resume=runs/{mode}"], 40),
  ):
    done = run(
      *(folder, "train", f"--mode={mode}", *flags, f"{limit}={steps}"),
      *("--config.limits.target_return=inf",),
      stdout=output,
    )
    assert (done.returncode, done.stderr) == (0, "")
    summary = json.loads((folder / "runs" / mode / "summary.json").read_text())
    assert summary["trainer_steps"] >= steps
  os.close(output)


_EXITS = """
import sys

class Made:
  def __init__(self):
    sys.exit(0)

class Called:
  @property
  def fields(self):
    sys.exit(0)
"""


@pytest.mark.parametrize(
  ("flag", "words"),
  [
    ("agent=exits_at_once:Agent", "config.agent='exits_at_once:Agent'"),
    ("agent=exits:Made", "config.agent='exits:Made' can't be made"),
    ("agent=exits:Called", "code of your own raised SystemExit: 0"),
  ],
)
def test_a_component_that_exits_is_named(folder, flag, words):
  (folder / "exits_at_once.py").write_text("raise SystemExit(0)")
  (folder / "exits.py").write_text(_EXITS)
  done = run(folder, "train", f"--config.{flag}", "--name=wrong")
  assert done.returncode == 2
  line, *own = done.stderr.splitlines()
  assert words in line
  assert "SystemExit: 0" in line
  assert any(str(folder) in frame for frame in own)
  assert not any("/launch/" in frame for frame in own)
  assert not (folder / "runs" / "wrong").exists()


def test_own_modules_are_those_that_are_not_installed(folder, monkeypatch):
  monkeypatch.syspath_prepend(folder)
  config = slipway.load_config("apex_dqn:cartpole")
  assert user_modules.find_files(config) == []
  config.environment.name = "corridor:Corridor"
  config.network.torso = "gymnasium:spaces"
  assert user_modules.find_files(config) == [(folder / "corridor.py").resolve()]
