"""Tests of `slipway inspect`, of real runs in several modes."""

import json
import subprocess
import sys

import numpy as np
import pytest
from matplotlib import image

import slipway
from slipway.launch.commands import cli
from tests.launch import errors, saved

pytestmark = pytest.mark.runs


@pytest.fixture(scope="module")
def run_dir(tmp_path_factory):
  return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="module")
def train(run_dir):
  """Returns a function that trains a run, and returns its folder."""

  def train(name, preset, mode, **changes):
    config = slipway.load_config(preset)
    config.evaluation.period_steps = 0
    config.limits.target_return = float("inf")
    for field, value in changes.items():
      section, _, last = field.partition("__")
      config[section][last] = value
    slipway.train(config, name=name, run_dir=run_dir, mode=mode)
    return run_dir / name

  return train


@pytest.fixture(scope="module")
def prioritized(train):
  """Returns a run whose table has evicted items."""
  return train(
    "prioritized",
    "prioritized_dqn:cartpole",
    "single",
    replay__min_size=100,
    replay__capacity=600,
    limits__environment_steps=900,
  )


@pytest.fixture
def inspect(capsys):
  """Returns a function that inspects a run, and returns the printed JSON."""

  def inspect(run, *flags):
    capsys.readouterr()  # that of the training
    assert cli.run(["slipway", "inspect", str(run), "--json", *flags]) == 0
    return json.loads(capsys.readouterr().out)

  return inspect


def test_a_prioritized_table_of_one_process(prioritized, inspect):
  found = inspect(prioritized, "--items=2", "--episodes=0")
  table, quantiles = found["table"], found["quantiles"]
  assert (table["size"], table["capacity"]) == (600, 600)
  assert table["evicted"] == table["inserted"] - 600
  assert table["decoded"] == 600
  assert 0 < table["effective_items"] <= 600
  assert 0 < table["effective_batch"] <= 1
  assert 0.4 <= table["importance_exponent"] < 1
  assert (quantiles["a_tm1"]["min"], quantiles["a_tm1"]["max"]) == (0, 1)
  assert quantiles["version"]["max"] <= found["snapshot"]["version"]
  for levels in quantiles.values():
    assert [*levels] == ["min", "p10", "median", "p90", "max"]
    assert [*levels.values()] == sorted(levels.values())
  names = [
    *("highest priority 1", "highest priority 2"),
    *("lowest priority 2", "lowest priority 1"),
  ]
  priorities = [found[name]["priority"] for name in names]
  assert priorities[0] == quantiles["priority"]["max"]
  assert priorities[3] == quantiles["priority"]["min"]
  assert priorities == sorted(priorities, reverse=True)
  assert len(found[names[0]]["o_t"]) == 4


def test_the_policy_of_action_values(prioritized, inspect):
  found = inspect(prioritized, "--episodes=3")
  policy, changes = found["policy"], found["perturbations"]
  assert policy["actions_are"] == "greedy"
  assert policy["mean_return"] == policy["mean_length"]
  assert sum(policy["frequencies"]) == pytest.approx(1.0)
  assert 0 <= policy["frequency_entropy"] <= np.log(2)
  assert policy["explained_variance"] <= 1
  assert -1 <= policy["correlation"] <= 1
  assert set(changes) == {"[0]", "[1]", "[2]", "[3]"}
  assert [*changes.values()] == sorted(changes.values(), reverse=True)
  assert 0 <= min(changes.values()) <= max(changes.values()) <= 1


def test_sequences_of_several_workers(train, inspect):
  run = train(
    "sequences",
    "r2d2:cartpole",
    "async",
    topology__workers=2,
    replay__min_size=300,
    limits__trainer_steps=20,
  )
  found = inspect(run, "--items=1", "--episodes=1")
  table, item = found["table"], found["highest priority 1"]
  assert len(table["stream_shares"]) == 2
  assert sum(table["stream_shares"]) == pytest.approx(1.0)
  assert found["quantiles"]["age_s"]["min"] == 0
  assert found["quantiles"]["times_sampled"]["max"] > 0
  assert len(item["reward"]) == len(item["version"])
  assert "bias" in found["policy"]
  assert "perturbations" not in found


def test_items_of_several_transitions(train, inspect):
  run = train(
    "groups",
    "apex_dqn:cartpole",
    "single",
    replay__min_size=400,
    replay__transitions_per_item=4,
    limits__trainer_steps=5,
  )
  found = inspect(run, "--items=1", "--episodes=0")
  assert np.shape(found["highest priority 1"]["o_t"]) == (4, 4)


def test_frames_are_pictures(train, inspect, tmp_path):
  run = train(
    "frames",
    "dqn:pong",
    "single",
    replay__min_size=100,
    replay__capacity=200,
    limits__trainer_steps=1,
  )
  flags = ["--items=1", "--episodes=0", f"--pictures={tmp_path / 'new'}"]
  found = inspect(run, *flags)
  assert "policy" not in found
  assert found["quantiles"]["a_tm1"]["max"] > 0
  newest = found["newest 1"]
  assert newest["o_t"]["max"] > newest["o_t"]["min"]
  assert "oldest 1" in found
  assert len([*(tmp_path / "new").iterdir()]) == 4
  pixels = image.imread(newest["o_t_picture"])
  assert pixels.shape[1] == pytest.approx(4 * pixels.shape[0], rel=0.1)
  assert pixels[..., 0].std() > 0


def test_a_queue_is_no_table(train, inspect, capsys):
  run = train("queue", "ppo:cartpole", "single", limits__trainer_steps=2)
  found = inspect(run, "--episodes=2")
  assert [*found["table"]] == ["none"]
  assert found["policy"]["actions_are"] == "sampled"
  assert 0 < found["policy"]["entropy"] <= np.log(2)
  assert cli.run(["slipway", "inspect", str(run), "--episodes=2"]) == 0
  shown = capsys.readouterr().out
  assert "queue" in shown
  assert "explained variance" in shown


@pytest.mark.parametrize(
  ("algorithm", "actions_are"), [("sac", "sampled"), ("td3", "greedy")]
)
def test_continuous_actions(train, inspect, algorithm, actions_are):
  run = train(
    algorithm,
    f"{algorithm}:pendulum",
    "single",
    replay__min_size=300,
    limits__trainer_steps=5,
  )
  found = inspect(run, "--episodes=1")
  policy = found["policy"]
  assert policy["actions_are"] == actions_are
  assert (policy["entropy"] is None) == (algorithm == "td3")
  assert -1 <= policy["action"]["min"] <= policy["action"]["max"] <= 1
  assert "bias" in policy
  assert len(found["perturbations"]) == 3


def test_a_run_that_is_not_active_can_not_save(prioritized, capsys):
  assert cli.run(["slipway", "inspect", str(prioritized), "--save"]) == 1
  errors.check_printed(capsys, "has ended")


@pytest.mark.parametrize("words", [[], ["a", "b"]])
def test_the_command_takes_one_run(words, capsys):
  assert cli.run(["slipway", "inspect", *words]) == 2
  errors.check_printed(capsys, f"{len(words)} runs are given")


def test_an_ended_run_without_a_snapshot(tmp_path, capsys):
  folder = saved.write_run(slipway.load_config("dqn:cartpole"), tmp_path)
  assert cli.run(["slipway", "inspect", str(folder.path)]) == 2
  errors.check_printed(capsys, "no complete snapshot", "has ended without one")


@pytest.mark.timeout(300)
def test_an_active_run_saves_itself(run_dir):
  config = slipway.load_config("dqn:cartpole")
  config.replay.update({"min_size": 100, "capacity": 500})
  config.limits.target_return = float("inf")
  config.snapshot.period_s = 1000.0
  run = run_dir / "active"
  # A process of its own, since the run prints in this one.
  arguments = ["inspect", str(run), "--json", "--episodes=0"]
  program = [sys.executable, "-m", "slipway.launch.commands.cli", *arguments]
  training = slipway.start(config, name="active", run_dir=run_dir, mode="async")
  made = []
  for status in training:
    if status.trainer_steps and not made:
      made = [
        subprocess.run([*program, *flags], capture_output=True, text=True)
        for flags in ([], ["--save"])
      ]
      training.stop()
  early, late = made
  assert early.returncode == 2
  assert "--save" in early.stderr
  assert late.returncode == 0, late.stderr
  found = json.loads(late.stdout)
  assert found["snapshot"]["snapshot"] == 1
  assert found["snapshot"]["trainer_steps"] > 0
  assert found["table"]["size"] >= 100
