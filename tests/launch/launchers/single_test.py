"""Tests that a seed makes a run in one process bit-for-bit reproducible."""

import csv
import json
import os
import subprocess
import sys

import numpy as np
import psutil
import pytest
import tensorflow as tf
from tensorboard.backend.event_processing import event_accumulator

from slipway.launch.commands import cli
from slipway.launch.runs import (
  best_variables,
  curves,
  run_folder,
  snapshot_store,
)

# Each test starts processes, on a machine that may be busy.
pytestmark = [pytest.mark.runs, pytest.mark.timeout(400)]

STEPS = 150  # trainer steps, in which each environment finishes some episodes
_TIMED = {"wall_s", "env_steps_per_s", "trainer_steps_per_s"}


@pytest.fixture(scope="module")
def train(tmp_path_factory):
  """Returns a function that trains and returns the run's folder.

  Each training has its own process, as op determinism can't be switched off.
  """
  run_dir = tmp_path_factory.mktemp("runs")

  def train(name, *flags, exit_status=0, **environment):
    done = subprocess.run(
      [
        sys.executable,
        "-m",
        "slipway.launch.commands.train",
        "--mode=single",
        "--config=apex_dqn:cartpole",
        f"--name={name}",
        f"--run_dir={run_dir}",
        f"--config.limits.trainer_steps={STEPS}",
        "--config.limits.target_return=inf",
        "--config.network.hidden_sizes=(32,)",
        "--config.replay.min_size=200",
        "--config.topology.environments_per_worker=8",
        "--config.evaluation.period_steps=75",
        *flags,
      ],
      capture_output=True,
      text=True,
      env={**os.environ, **environment},
    )
    assert done.returncode == exit_status, done.stderr
    return run_folder.RunFolder.open(run_dir / name)

  return train


def rows_of(folder):
  with open(folder.curves_csv, newline="") as file:
    rows = list(csv.DictReader(file))
  return [
    {name: row[name] for name in curves.COLUMNS if name not in _TIMED}
    for row in rows
  ]


def learned(folder):
  """Returns all values that the trainer saved, with optimizer and counters."""
  newest = snapshot_store.SnapshotStore(folder).newest()
  reader = tf.train.load_checkpoint(str(newest.path / "trainer"))
  return {
    name: reader.get_tensor(name)
    for name in reader.get_variable_to_shape_map()
    if name != "_CHECKPOINTABLE_OBJECT_GRAPH"
  }


def steps(folder):
  summary = json.loads(folder.summary.read_text())
  return summary["env_steps"], summary["trainer_steps"]


@pytest.fixture(scope="module")
def first(train):
  return train("first")


def test_a_run_that_ends_before_its_first_evaluation_has_one(train):
  folder = train(
    "short",
    "--config.limits.trainer_steps=0",
    "--config.limits.environment_steps=500",
    "--config.evaluation.environment.kwargs.sutton_barto_reward=True",
  )
  summary = json.loads(folder.summary.read_text())
  assert 0 < summary["trainer_steps"] < 75
  assert -1 <= summary["evaluation"]["mean_return"] <= 0  # -1 where it falls
  assert summary["training_return"] > 0
  (row,) = rows_of(folder)
  assert int(row["trainer_steps"]) == summary["trainer_steps"]
  newest = snapshot_store.SnapshotStore(folder).newest()
  assert newest.best == newest.number
  assert folder.best.exists()


def test_evaluations_that_are_switched_off(train):
  folder = train(
    "unevaluated",
    "--config.evaluation.period_steps=0",
    "--config.limits.trainer_steps=2",
  )
  assert rows_of(folder) == [] and not folder.best.exists()


def test_numbers_of_infos_are_recorded(train, capsys):
  folder = train(
    "informed",
    "--config.environment.name=tests.environments.toys:CombinationLock",
    "--config.environment.kwargs={}",
    "--config.environment.kwargs.states=3",
    "--config.environment.kwargs.forgiving=True",
    "--config.evaluation.info=missing",
    "--config.limits.target_info=is_success:0",
    "--config.limits.target_evaluations=1",
  )
  summary = json.loads(folder.summary.read_text())
  assert summary["stopped_because"] == "target_info"
  assert len(rows_of(folder)) == 1
  (share,) = summary["evaluation"]["info"].values()
  # The return is 0.94 if the lock opens, and -0.04 to 0 otherwise.
  assert 0.98 * share - 0.04 <= summary["evaluation"]["mean_return"] + 1e-6
  assert summary["evaluation"]["mean_return"] - 1e-6 <= 0.94 * share
  name = "evaluation/info/is_success"
  reader = event_accumulator.EventAccumulator(str(folder.events))
  reader.Reload()
  scalars = [event.value for event in reader.Scalars(name)]
  assert scalars[-1] == pytest.approx(share)
  assert cli.run(["slipway", "evaluate", f"--run={folder.path}"]) == 0
  assert "environment steps, mean is_success " in capsys.readouterr().out


def test_one_seed_gives_one_run_with_or_without_videos(train, first):
  again = train("again", "--config.evaluation.video_period=1")
  assert (again.logs / "videos").exists()
  assert steps(again) == steps(first)
  assert rows_of(again) == rows_of(first)
  assert len(rows_of(first)) == STEPS // 75
  variables, others = learned(first), learned(again)
  assert set(variables) == set(others)
  assert sum(value.size for value in variables.values()) > 500
  for name, value in variables.items():
    assert np.asarray(value).tobytes() == np.asarray(others[name]).tobytes()
  assert (
    best_variables.load(first.best)[0] == best_variables.load(again.best)[0]
  )


def test_another_seed_gives_another_run(train, first):
  other = train("other", "--config.seed=2")
  assert rows_of(other) != rows_of(first)
  variables, others = learned(first), learned(other)
  different = [
    name
    for name, value in variables.items()
    if np.asarray(value).tobytes() != np.asarray(others[name]).tobytes()
  ]
  assert len(different) > 4


def test_the_limit_and_the_ratio_are_exact(first):
  env_steps, trainer_steps = steps(first)
  assert trainer_steps == STEPS
  # An update takes 64 samples, and each insert grants 8. So an update needs 8
  # transitions, after the first 200. In each of the 8 environments, the last 14
  # steps still lack rewards of their 15-step returns, and an item of 4
  # transitions may be incomplete.
  assert 0 <= env_steps - (200 + 8 * STEPS) < 8 * (14 + 4)


# Makes each snapshot fail, as a disk that rejects it would.
_HOOK = """
def notify(event):
  if event.name == "start":
    (event.folder / "snapshots").rmdir()
    (event.folder / "snapshots").touch()
  if event.name == "end":
    (event.folder / "ended").touch()
"""


# Starts a process whose parent ends at once.
_LEAVING = """
import subprocess

from gymnasium.envs import classic_control


class Leaving(classic_control.CartPoleEnv):
  def __init__(self, **kwargs):
    super().__init__(**kwargs)
    subprocess.run(["sh", "-c", "sleep {seconds} >/dev/null 2>&1 &"])
"""


def test_orphans_of_an_environment_are_killed(train, tmp_path):
  seconds = str(10**6 + os.getpid())
  text = _LEAVING.format(seconds=seconds)
  (tmp_path / "leaving.py").write_text(text)
  train(
    "orphans",
    "--config.environment.name=leaving:Leaving",
    "--config.environment.time_limit=500",
    PYTHONPATH=str(tmp_path),
  )
  left = [x.info["cmdline"] for x in psutil.process_iter(["cmdline"])]
  assert ["sleep", seconds] not in left


_ONCE = """
from gymnasium.envs import classic_control


class Once(classic_control.CartPoleEnv):
  count = 0

  def __init__(self, **kwargs):
    super().__init__(**kwargs)
    Once.count += 1
    if Once.count > 1:  # after the check before the start
      raise RuntimeError("the simulator has no second licence")
"""


def test_a_run_that_never_began_leaves_no_folder(train, tmp_path):
  (tmp_path / "once.py").write_text(_ONCE)
  with pytest.raises(ValueError, match="does not exist"):
    train(
      "unbegun",
      "--config.environment.name=once:Once",
      exit_status=1,
      PYTHONPATH=f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}",
    )


def test_a_run_without_its_last_snapshot_ends_in_order(train, tmp_path):
  (tmp_path / "rejecting.py").write_text(_HOOK)
  folder = train(
    "rejected",
    "--config.hooks=rejecting:notify",
    "--config.limits.trainer_steps=1",
    exit_status=1,
    PYTHONPATH=f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}",
  )
  assert steps(folder)[1] == 1
  assert folder.curves_png.exists()
  assert (folder.path / "ended").exists()
