"""Tests of `slipway envs`: what it measures, lists and rejects."""

import json
import random

import gymnasium
import numpy as np
import pytest

from slipway.launch.commands import envs
from tests.launch import errors

TOYS = "tests.environments.toys"


class Endless(gymnasium.Env):
  """Has one observation, random rewards without a seed, and no end."""

  observation_space = gymnasium.spaces.Dict(
    {"where": gymnasium.spaces.Box(0, 9, (2,), np.float32)}
  )
  action_space = gymnasium.spaces.Box(-2, 2, (1,), np.float32)

  def reset(self, *, seed=None, options=None):
    return {"where": np.float32([1, 2])}, {}

  def step(self, action):
    observation = {"where": np.float32([1, 2])}
    return observation, random.random(), False, False, {}


def run(capsys, *arguments):
  status = envs.main(["slipway envs", *arguments])
  return status, capsys.readouterr()


def test_an_environment_is_measured(capsys):
  name = f"{TOYS}:Catch"
  changes = ["--config.environment.kwargs.rows=4", "--json"]
  status, printed = run(capsys, name, *changes)
  assert not status
  found = json.loads(printed.out)
  assert found["lengths"] == [3, 3.0, 3]
  assert min(found["steps_per_s"], found["batch_steps_per_s"]) > 0
  assert found["unpredictable"] is None  # of images
  assert found["rewards"][0] == -1.0
  assert found["terminated_share"] == 1.0
  assert found["config"] == "ppo:generic"
  assert found["observation_high"] == [[1.0] * 5] * 4
  assert found["presets"] == found["problems"] == []


def test_problems_are_named(capsys):
  status, printed = run(capsys, f"{__name__}:Endless")
  assert not status
  text = " ".join(printed.out.split())
  for words in (
    "sac:generic",
    "did not repeat its steps",
    "no episode ended",
    "observation was the same",
    "range ['where'] 1 to 1, 2 to 2; 2 did not change",
  ):
    assert words in text
  assert max(map(len, printed.out.splitlines())) <= 80


def test_presets_of_the_environment_are_named(capsys):
  status, printed = run(capsys, "CartPole-v1")
  assert not status
  assert " cartpole\n" in printed.out
  assert "problem" not in printed.out


def test_all_installed_environments_are_listed(capsys):
  status, printed = run(capsys, "--json")
  assert not status
  groups = json.loads(printed.out)
  assert "CartPole-v1" in groups["classic_control"]
  assert "CartPole-v0" not in groups["classic_control"]
  assert "ALE/Pong-v5" in groups["ALE"]
  for name in groups["MinAtar"][:1]:
    status, printed = run(capsys, name, "--json")
    assert not status
    assert json.loads(printed.out)["presets"]


@pytest.mark.parametrize(
  ("arguments", "words"),
  [
    (["CartPole-v7"], ["CartPole-v1"]),
    (["CartPole-v1", "Pendulum-v1"], ["2 environments", "one"]),
    (["CartPole-v1", "--config.seed=3"], ["config.seed", "no flag"]),
    (["CartPole-v1", "--steps=3"], ["--steps", "no flag"]),
    (["--config.environment.frame_stack=3"], ["0 environments"]),
    (["CartPole-v1", "--config.environment.frame_stack=x"], ["frame_stack"]),
  ],
)
def test_what_is_rejected(capsys, arguments, words):
  assert envs.main(["slipway envs", *arguments]) == 2
  errors.check_printed(capsys, *words)
