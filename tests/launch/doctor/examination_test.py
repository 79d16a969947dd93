"""Tests of `slipway doctor`: findings of runs, output and exit status."""

import json
import math
import subprocess
import sys
import time

import gymnasium
import pytest

from slipway.configs import catalog
from slipway.launch.commands import cli
from slipway.launch.diagnosis import finding
from slipway.launch.doctor import examination, machine
from slipway.launch.runs import curves, results, run_folder
from tests.launch import errors, saved


class Negated(gymnasium.RewardWrapper):
  """Has a sign too many."""

  def reward(self, reward):
    return -reward


def write_run(tmp_path, status=None, returns=(20.0, 30.0), **changes):
  """Writes the folder of a run that has ended."""
  config = catalog.algorithms()["dqn"].get_config("cartpole")
  for name, value in changes.items():
    section, _, field = name.partition("__")
    config[section][field] = value
  folder = run_folder.RunFolder.create(tmp_path, "a", overwrite=False)
  folder.write_config(config)
  written = results.Results(folder)
  for index, value in enumerate(returns):
    written.add_evaluation(
      curves.Evaluation(
        wall_s=1.0 + index,
        env_steps=1_000 * index,
        trainer_steps=100 * index,
        eval_return=value,
        eval_length=value,
      )
    )
  fields = {"stopped_because": "trainer_steps", **(status or {})}
  ended = saved.make_counters(**fields).status
  written.add_metrics(ended)
  written.write_summary(ended)
  written.close()
  return folder.path


def list_names(found):
  """Returns the names of the findings in a command's JSON."""
  return [x["name"] for x in found if x["severity"] != finding.OK]


@pytest.fixture
def run(tmp_path):
  """Returns the folder of a healthy run."""
  return write_run(tmp_path)


def test_a_healthy_run(run, capsys):
  assert cli.run(["slipway", "doctor", str(run)]) == 0
  printed = capsys.readouterr().out
  assert "random play" in printed
  assert all(line.startswith("ok ") for line in printed.splitlines())


def test_findings_come_from_config_metrics_and_environment(tmp_path, capsys):
  path = write_run(
    tmp_path,
    status={"learner": {"dead_units": 0.95, "gradient_norm": math.nan}},
    learner__learning_rate=0.5,
    environment__wrappers=(f"{__name__}:Negated",),
  )
  assert cli.run(["slipway", "doctor", str(path), "--json"]) == 1
  found = json.loads(capsys.readouterr().out)
  names = list_names(found)
  assert names == [
    *("learning rate", "skipped updates", "reward sign", "dead units"),
  ]
  assert all(x["sentence"] for x in found)
  without = examination.examine(path, play=False)
  assert {x.name for x in without} >= {*names} - {"reward sign"}
  assert "reward sign" not in {x.name for x in without}


def test_an_environment_that_fails_is_a_finding(tmp_path):
  path = write_run(tmp_path, environment__kwargs={"no_such": 1})
  found = {x.name: x.sentence for x in examination.examine(path)}
  assert "no_such" in found["environment"]


def test_a_run_without_updates_cannot_be_judged(tmp_path, capsys):
  config = catalog.algorithms()["dqn"].get_config("cartpole")
  folder = run_folder.RunFolder.create(tmp_path, "a", overwrite=False)
  folder.write_config(config)
  assert cli.run(["slipway", "doctor", str(folder.path)]) == 2
  errors.check_printed(capsys, "has made no update")


@pytest.mark.parametrize(
  ("arguments", "words"),
  [
    (["missing"], "'missing' does not exist"),
    (["a", "b"], "2 folders"),
    (["--no_such"], "--no_such"),
  ],
)
def test_what_is_rejected(arguments, words, capsys):
  assert cli.run(["slipway", "doctor", *arguments]) == 2
  errors.check_printed(capsys, words)


def test_the_machine_has_a_finding_per_property(tmp_path):
  severities = {x.name: x.severity for x in machine.examine(tmp_path, False)}
  assert {"cores", "memory", "kernel", "versions", "disk"} <= {*severities}
  assert severities["processor"] == severities["clock"] == finding.OK
  assert [*tmp_path.iterdir()] == []


def test_a_check_that_fails_is_a_problem(tmp_path):
  found = {x.name: x for x in machine.examine(tmp_path / ("a" * 300), False)}
  assert found["system"].severity == finding.PROBLEM
  assert "OSError" in found["system"].sentence and "versions" in found


def test_what_an_environment_prints_is_not_among_the_json(tmp_path):
  (tmp_path / "loud.py").write_text(
    "import os, gymnasium\n"
    "class Loud(gymnasium.Wrapper):\n"
    "  def step(self, action):\n"
    "    print('a step')\n"
    "    os.write(1, b'of C++')\n"
    "    return super().step(action)\n"
  )
  path = write_run(tmp_path, environment__wrappers=("loud:Loud",))
  done = subprocess.run(
    [
      *(sys.executable, "-m", "slipway.launch.commands.cli"),
      *("doctor", str(path), "--json"),
    ],
    cwd=tmp_path,
    capture_output=True,
    text=True,
    check=False,
  )
  assert list_names(json.loads(done.stdout)) == []
  assert "a step" in done.stderr and "of C++" in done.stderr


@pytest.mark.runs
@pytest.mark.timeout(300)
def test_a_real_run_and_the_parts_of_the_data_path(tmp_path, capsys):
  subprocess.run(
    [
      *(sys.executable, "-m", "slipway.launch.commands.train"),
      *("--config=dqn:cartpole", "--mode=single", "--name=a"),
      f"--run_dir={tmp_path}",
      "--config.limits.trainer_steps=300",
      "--config.evaluation.period_steps=100",
      "--config.learner.target_update_period=1",
      "--config.learner.learning_rate=0.5",
    ],
    check=True,
  )
  found = examination.examine(tmp_path / "a")
  assert {"learning rate", "target network"} <= {x.name for x in found}
  status = cli.run(["slipway", "doctor", "--json", f"--run_dir={tmp_path}"])
  found = json.loads(capsys.readouterr().out)
  assert {"environment", "writer", "updates", "variables"} <= {
    x["name"] for x in found
  }
  assert status == bool(list_names(found))
  assert not any("Error" in x["sentence"] for x in found)


class Hanging(gymnasium.Wrapper):
  """Never returns from a step."""

  def __init__(self):
    super().__init__(gymnasium.make("CartPole-v1"))

  def step(self, action):
    del action
    while True:
      time.sleep(1.0)


def test_an_environment_that_hangs(tmp_path):
  run = write_run(
    tmp_path,
    environment__name=f"{__name__}:Hanging",
    environment__step_timeout_s=3.0,
  )
  ended = subprocess.run(
    [sys.executable, "-m", "slipway.launch.commands.cli", "doctor", str(run)],
    capture_output=True,
    text=True,
    timeout=60,
    check=False,
  )
  assert ended.returncode == 2
  assert "step() has not returned for 3.0 s" in ended.stderr
