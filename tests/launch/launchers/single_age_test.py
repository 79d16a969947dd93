"""Tests of the reported policy ages of a run in one process."""

import pathlib
import subprocess
import sys

import pytest

pytestmark = [pytest.mark.runs, pytest.mark.timeout(400)]

_ROOT = pathlib.Path(__file__).resolve().parents[3]

# Runs in its own process, because op determinism can't be switched off.
_RUN = """
import pathlib, sys
import numpy as np
from slipway.replay.tables import local_table
from tests.launch.launchers import single_steps

PERIOD = 7
config = single_steps.make_config("frozen")
config.adder.n_step = 1  # inserted items have the previous step's actions
config.evaluation.period_steps = 1_000_000
config.variables.publish_period = PERIOD

samples, sample = [], local_table.LocalTable.sample

def sample_and_note(table, batch_size):
  samples.append(sample(table, batch_size))
  return samples[-1]

local_table.LocalTable.sample = sample_and_note
run = single_steps.Stepped(config, pathlib.Path(sys.argv[1]) / "run")
version_of, acted_by, largest = [], 0, 0
while len(samples) < 6 * PERIOD:
  before, newest = len(samples), run.counts()["version"]
  run.step()
  counts = run.counts()
  assert counts["version"] == 1 + len(samples) // PERIOD
  if len(samples) == before:
    # The previous step's variables chose the actions of the new items.
    missing = counts["table"][1] - len(version_of)
    version_of += [acted_by] * missing
    acted_by = newest
    continue
  # The age counts from the version before the update, not after it.
  ages = newest - np.array(version_of)[samples[-1][0].astype(int)]
  found = run.control.status().learner
  assert abs(found["policy_age_versions_mean"] - ages.mean()) < 1e-9
  assert found["policy_age_versions_max"] == ages.max()
  largest = max(largest, ages.max())
assert largest > 3
"""


def test_ages_equal_those_by_hand(tmp_path):
  done = subprocess.run(
    [sys.executable, "-c", _RUN, str(tmp_path)],
    capture_output=True,
    text=True,
    cwd=_ROOT,
  )
  assert done.returncode == 0, done.stderr
