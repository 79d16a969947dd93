"""Tests of runs whose environment has changed since they were made."""

import os
import subprocess
import sys

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

import slipway
from slipway.environments import factory
from slipway.environments import spaces as spaces_lib
from slipway.launch.runs import recorded_spaces
from tests.launch import saved


class Arm(gymnasium.Env):
  """Environment whose spaces are attributes of the class."""

  observation_space: gymnasium.Space = spaces.Box(-1, 1, (3,), np.float32)
  action_space: gymnasium.Space = spaces.Discrete(3)

  def reset(self, *, seed=None, options=None):
    super().reset(seed=seed)
    self.observation_space.seed(seed)
    return self.observation_space.sample(), {}

  def step(self, action):
    return self.observation_space.sample(), 1.0, True, False, {}


_DICT = spaces.Dict({"a": spaces.Discrete(2), "b": spaces.Discrete(3)})
# spaces when the run was made and later, and texts of the error.
CHANGED = [
  ("action_space", spaces.Discrete(3), spaces.Discrete(3, start=1), "from 1"),
  ("action_space", spaces.Discrete(3), spaces.Discrete(4), "4 values"),
  (
    "observation_space",
    spaces.Box(-1, 1, (3,), np.float32),
    spaces.Box(-10, 10, (3,), np.float32),
    "-10.0 to 10.0",
  ),
  (
    "observation_space",
    spaces.Box(-1, 1, (3,), np.float32),
    spaces.Box(-1, 1, (4,), np.float32),
    "[4]",
  ),
  (
    "observation_space",
    spaces.Box(-1, 1, (3,), np.float32),
    spaces.Box(-1, 1, (3,), np.float64),
    "float64",
  ),
  (
    "observation_space",
    _DICT,
    spaces.Dict([("b", spaces.Discrete(3)), ("a", spaces.Discrete(2))]),
    "['b']",
  ),
  ("observation_space", spaces.Discrete(3), spaces.Discrete(3, start=-1), "-1"),
]


@pytest.mark.parametrize(("name", "before", "after", "text"), CHANGED)
def test_a_policy_is_not_loaded_for_other_spaces(
  name, before, after, text, tmp_path, monkeypatch
):
  config = slipway.load_config("dqn:cartpole")
  config.environment.name = f"{__name__}:Arm"
  monkeypatch.setattr(Arm, name, before)
  folder = saved.write_run(config, tmp_path)
  recorded_spaces.write(folder, factory.make_spec(config.environment))
  slipway.load(folder.path)
  monkeypatch.setattr(Arm, name, after)
  with pytest.raises(ValueError, match="has other ") as caught:
    slipway.load(folder.path)
  message = str(caught.value)
  assert "\n" not in message and text in message and str(folder.path) in message


def test_the_bounds_of_large_spaces_are_compared_in_a_short_line():
  low = np.random.default_rng(0).uniform(-1, 0, (500, 500)).astype(np.float32)
  other = low.copy()
  other[7, 7] -= 0.5
  before, same, after = (
    spaces_lib.describe(spaces.Box(x, np.ones_like(x), dtype=np.float32))
    for x in (low, low.copy(), other)
  )
  assert before == same != after
  assert len(before) < 200


_ARM = """
import gymnasium
import numpy as np
from gymnasium import spaces

class Arm(gymnasium.Env):
  observation_space = spaces.Box(-1, 1, (3,), np.float32)
  action_space = spaces.Discrete(3, start=0)

  def reset(self, *, seed=None, options=None):
    return np.zeros(3, np.float32), {}

  def step(self, action):
    return np.zeros(3, np.float32), 1.0, True, False, {}
"""


def train(folder, *flags):
  # In a process of its own, since the command adopts orphans.
  return subprocess.run(
    [
      sys.executable,
      "-m",
      "slipway.launch.commands.train",
      "--mode=single",
      *flags,
    ],
    cwd=folder,
    env={**os.environ, "PYTHONPATH": str(folder)},
    capture_output=True,
    text=True,
  )


@pytest.mark.runs
def test_a_run_with_other_spaces_is_not_resumed(tmp_path):
  module = tmp_path / "arm.py"
  module.write_text(_ARM)
  new = [
    "--config=dqn:cartpole",
    "--name=a",
    "--config.limits.trainer_steps=60",
  ]
  done = train(tmp_path, "--config.environment.name=arm:Arm", *new)
  assert done.returncode == 0, done.stderr
  before = sorted((tmp_path / "runs").rglob("*"))
  module.write_text(_ARM.replace("start=0", "start=5"))
  limit = "--config.limits.trainer_steps=80"
  done = train(tmp_path, "--resume=runs/a", limit)
  assert done.returncode == 2
  assert "from 5" in done.stderr and done.stderr.count("\n") == 1
  assert sorted((tmp_path / "runs").rglob("*")) == before
