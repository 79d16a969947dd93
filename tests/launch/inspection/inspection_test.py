"""Tests of `slipway inspect`, of real runs in several modes."""

import json
import re
import subprocess
import sys

import numpy as np
import pytest
from matplotlib import image

import slipway
from slipway.launch.inspection import command, inspection
from slipway.launch.runs import run_folder
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


def test_a_prioritized_table_of_one_process(prioritized):
  found = inspection.inspect(prioritized, items=2)
  table = found.table
  assert table is not None
  assert (table.kind, table.size, table.capacity) == ("transition", 600, 600)
  assert table.evicted.count == table.inserted - 600
  assert sum(table.priorities.counts) == sum(table.versions.counts) == 600
  assert 0 < table.effective_items <= 600
  assert 0 < table.effective_batch <= 1
  assert table.fields["a_tm1"].distinct == 2
  assert table.fields["o_t"].shape == [4]
  shares = [group.sampling_share for group in table.tenths_newest_first]
  assert len(shares) == 10
  assert sum(shares) == pytest.approx(1.0)
  newest, *_, oldest = table.tenths_newest_first
  assert newest.mean_version >= oldest.mean_version
  priorities = [item.priority for item in found.items]
  assert [item.place for item in found.items] == [
    *("highest priority 1", "highest priority 2"),
    *("lowest priority 1", "lowest priority 2"),
  ]
  assert priorities[0] == table.priorities.edges[-1]
  assert priorities[2] == table.priorities.edges[0]
  assert priorities[0] >= priorities[1] >= priorities[3] >= priorities[2]


def test_the_policy_of_action_values(prioritized):
  policy = inspection.inspect(prioritized, episodes=3).policy
  assert policy.actions_are == "greedy"
  assert sum(policy.actions[0].frequencies) == pytest.approx(1.0)
  steps = sum(each.steps for each in policy.calibration.bins)
  assert steps == policy.calibration.steps
  assert steps >= 3 * policy.mean_length - 1
  parts = {each.part for each in policy.perturbations}
  assert parts == {"[0]", "[1]", "[2]", "[3]"}
  changes = [each.action_change for each in policy.perturbations]
  assert changes == sorted(changes, reverse=True)


def test_sequences_of_several_workers(train):
  run = train(
    "sequences",
    "r2d2:cartpole",
    "async",
    topology__workers=2,
    replay__min_size=300,
    limits__trainer_steps=20,
  )
  found = inspection.inspect(run, items=1, episodes=1)
  table = found.table
  assert table.kind == "sequence"
  assert sum(table.stream_shares) == pytest.approx(1.0)
  assert len(table.stream_shares) == 2
  assert sum(table.times_sampled.counts) == table.size
  assert sum(table.ages_s.counts) == table.size
  assert found.items[0].times_sampled is not None
  assert found.policy.calibration is not None
  assert found.policy.perturbations is None


def test_frames_are_pictures(train, tmp_path, capsys):
  run = train(
    "frames",
    "dqn:pong",
    "single",
    replay__min_size=100,
    replay__capacity=200,
    limits__trainer_steps=1,
  )
  capsys.readouterr()  # that of the training
  flags = [str(run), "--items=1", "--episodes=0", "--json"]
  assert (
    command.main(["inspect", *flags, f"--pictures={tmp_path / 'new'}"]) == 0
  )
  found = json.loads(capsys.readouterr().out)
  assert found["policy"] is None
  assert found["table"]["fields"]["a_tm1"]["distinct"] > 1
  newest, oldest = found["items"]
  assert (newest["place"], oldest["place"]) == ("newest 1", "oldest 1")
  assert newest["fields"][0]["o_t"]["shape"] == [4, 84, 84]
  assert len(newest["pictures"]) == 2
  pixels = image.imread(newest["pictures"][0])
  assert pixels.shape[1] == pytest.approx(4 * pixels.shape[0], rel=0.1)
  assert pixels[..., 0].std() > 0


def test_a_queue_is_no_table(train, capsys):
  run = train("queue", "ppo:cartpole", "single", limits__trainer_steps=2)
  assert command.main(["inspect", str(run), "--episodes=2"]) == 0
  shown = capsys.readouterr().out
  assert re.search(r"saved at +\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", shown)
  assert "queue" in shown
  found = inspection.inspect(run, episodes=2)
  assert found.table is None
  policy = found.policy
  assert policy.actions_are == "sampled"
  assert 0 < policy.entropy <= np.log(2)
  assert policy.calibration.steps > 0


@pytest.mark.parametrize(
  ("algorithm", "actions_are"), [("sac", "sampled"), ("td3", "greedy")]
)
def test_continuous_actions(train, algorithm, actions_are):
  run = train(
    algorithm,
    f"{algorithm}:pendulum",
    "single",
    replay__min_size=300,
    limits__trainer_steps=5,
  )
  policy = inspection.inspect(run, episodes=1).policy
  assert policy.actions_are == actions_are
  assert (policy.entropy is None) == (algorithm == "td3")
  (action,) = policy.actions
  assert -1 <= action.mean <= 1
  assert 0 <= action.at_bounds <= 1
  assert policy.calibration.steps > 0
  assert len(policy.perturbations) == 3


def test_a_run_that_is_not_active_can_not_save(prioritized, capsys):
  assert command.main(["inspect", str(prioritized), "--save"]) == 1
  errors.check_printed(capsys, "has ended")


@pytest.mark.parametrize("words", [[], ["a", "b"]])
def test_the_command_takes_one_run(words, capsys):
  assert command.main(["inspect", *words]) == 2
  errors.check_printed(capsys, f"{len(words)} runs are given")


def test_a_run_without_a_snapshot(tmp_path, capsys):
  config = slipway.load_config("dqn:cartpole")
  folder = saved.write_run(config, tmp_path)
  assert isinstance(folder, run_folder.RunFolder)
  assert command.main(["inspect", str(folder.path)]) == 2
  errors.check_printed(capsys, "no complete snapshot")


def test_an_active_run_saves_itself(run_dir):
  config = slipway.load_config("dqn:cartpole")
  config.replay.update({"min_size": 100, "capacity": 500})
  config.limits.target_return = float("inf")
  run = run_dir / "active"
  # A process of its own, whose priority the command lowers.
  arguments = ["inspect", str(run), "--save", "--json", "--episodes=0"]
  program = [sys.executable, "-m", "slipway.launch.commands.cli", *arguments]
  training = slipway.start(config, name="active", run_dir=run_dir, mode="async")
  made = None
  for status in training:
    if status.trainer_steps and made is None:
      made = subprocess.run(program, capture_output=True, text=True)
      training.stop()
  assert made is not None
  assert made.returncode == 0, made.stderr
  found = json.loads(made.stdout)
  assert found["snapshot"] == 1
  assert found["trainer_steps"] > 0
  assert sum(found["table"]["times_sampled"]["counts"]) >= 100
