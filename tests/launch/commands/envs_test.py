"""Tests of `slipway envs`: what it measures, lists and rejects."""

import random

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.classic_control import cartpole

from slipway.launch.commands import cli
from tests.environments import given
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
  assert cli.run(["slipway", "envs", *arguments]) == 0
  printed = capsys.readouterr().out
  assert max(map(len, printed.splitlines())) <= 80 or not arguments
  return " ".join(printed.split())


def test_an_id_of_batches_only_is_measured(capsys):
  kind = cartpole.CartPoleVectorEnv
  with given.registered("Batch-v0", vector_entry_point=kind):
    assert "environment Batch-v0, played" in run(capsys, "Batch-v0")


def test_an_environment_is_measured(capsys):
  changes = "--config.environment.kwargs.rows=3"
  text = run(capsys, f"{TOYS}:Catch", changes)
  for words in (
    "lengths 2 to 2, mean 2 environment steps",
    "rewards -1 to 1",
    "range 0 to 1, 0 to 1",
    "by termination",
    "config ppo:generic",
    "seed reproducible",
  ):
    assert words in text


def test_problems_are_named(capsys):
  text = run(capsys, f"{__name__}:Endless")
  for words in (
    "sac:generic",
    "not reproducible",
    "returns - in 0 episodes",
    "range 1 to 1, 2 to 2",
    "problem observation: all observations are equal",
  ):
    assert words in text


def test_presets_of_the_environment_are_named(capsys):
  text = run(capsys, "CartPole-v1")
  assert "preset cartpole" in text
  assert "problem" not in text and "warning" not in text


def test_registered_environments_are_listed(capsys):
  names = run(capsys).split()
  assert "CartPole-v1" in names and "CartPole-v0" not in names
  assert "ALE/Pong-v5" in names
  (name,) = [name for name in names if name.endswith("MinAtar/Breakout-v1")]
  assert "preset minatar_breakout" in run(capsys, name)


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
  assert cli.run(["slipway", "envs", *arguments]) == 2
  errors.check_printed(capsys, *words)
