"""Tests of the single loop: runs the checks of `single_steps`.

The run resumes bit-identically, and it keeps its ratio of updates to steps.
"""

import pathlib
import subprocess
import sys

import pytest

# TensorFlow's start and tracing are slow on a busy machine.
pytestmark = [pytest.mark.runs, pytest.mark.timeout(400)]

_ROOT = pathlib.Path(__file__).resolve().parents[3]

# algorithm, checks of `single_steps` that run in one process
CHECKS = [
  ("apex_dqn", ["saved_between_any_two_steps"]),
  ("mpo", ["saved_between_any_two_steps"]),
  ("muzero", ["saved_between_any_two_steps"]),
  ("ppo", ["saved_between_any_two_steps", "larger_batch"]),
  ("r2d2", ["saved_between_any_two_steps"]),
  pytest.param(
    "rainbow", ["saved_between_any_two_steps"], marks=pytest.mark.chaos
  ),
  pytest.param("sac", ["saved_between_any_two_steps"], marks=pytest.mark.chaos),
  # Runs that resume at a limit and then equal an unlimited run for 100 steps.
  pytest.param("ddpg", ["limit_that_is_raised"], marks=pytest.mark.chaos),
  pytest.param("td3", ["limit_that_is_raised"], marks=pytest.mark.chaos),
  pytest.param("d4pg", ["limit_that_is_raised"], marks=pytest.mark.chaos),
  (
    "frozen",
    [
      "interrupted_evaluation",
      "limit_that_is_raised",
      "changed_ratio",
      "evaluations_of_another_size",
    ],
  ),
]


@pytest.mark.parametrize(("algorithm", "checks"), CHECKS)
def test_step_by_step(tmp_path, algorithm, checks):
  done = subprocess.run(
    [
      *(sys.executable, "-m", "tests.launch.launchers.single_steps"),
      *(algorithm, tmp_path, *checks),
    ],
    capture_output=True,
    text=True,
    cwd=_ROOT,
  )
  assert done.returncode == 0, done.stderr
