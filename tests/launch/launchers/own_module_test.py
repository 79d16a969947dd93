"""Tests of runs whose torso is a Keras model of the user's."""

import os
import pathlib
import subprocess
import sys

import pytest
import tensorflow as tf

from slipway.launch.runs import run_folder, snapshot_store
from tests.launch.launchers import snapshot_contents

_ROOT = pathlib.Path(__file__).resolve().parents[3]

pytestmark = [pytest.mark.runs, pytest.mark.timeout(400)]


class Torso(tf.keras.Model):
  """A dense layer, and a dropout, which acting and learning leave out."""

  def __init__(self):
    super().__init__()
    self.dense = tf.keras.layers.Dense(16, activation="relu")
    self.dropout = tf.keras.layers.Dropout(0.5)

  def call(self, x):
    return self.dropout(self.dense(x))


def run(folder, *flags):
  done = subprocess.run(
    [sys.executable, "-m", "slipway.launch.commands.cli", *flags],
    cwd=folder,
    env={**os.environ, "PYTHONPATH": str(_ROOT)},
    capture_output=True,
    text=True,
    timeout=110,
    check=False,
  )
  assert done.returncode == 0, done.stderr
  return done.stdout


def train(folder, name, mode, steps):
  return run(
    *(folder, "train", "--config=apex_dqn:cartpole", f"--mode={mode}"),
    *(f"--name={name}", f"--config.network.torso={__name__}:Torso"),
    f"--config.limits.trainer_steps={steps}",
    "--config.replay.min_size=200",
    *(["--config.evaluation.period_steps=20"] if mode == "single" else []),
  )


def saved(folder, name):
  """Returns the content of a run's newest snapshot; `==` compares its bits."""
  runs = run_folder.RunFolder(folder / "runs" / name)
  newest = snapshot_store.SnapshotStore(runs).newest()
  return snapshot_contents.read(newest.path)


@pytest.mark.parametrize("mode", ["single", "async"])
def test_it_trains_is_resumed_and_evaluated(mode, tmp_path):
  """In mode 'async', a worker process acts with the model."""
  out = train(tmp_path, "own", mode, 40)
  assert out.count("act in TensorFlow") == 1
  run(
    tmp_path, "train", "--resume=runs/own", "--config.limits.trainer_steps=80"
  )
  assert "episodes of version" in run(tmp_path, "evaluate", "--run=runs/own")
  if mode == "single":
    train(tmp_path, "whole", mode, 80)
    assert saved(tmp_path, "own") == saved(tmp_path, "whole")
