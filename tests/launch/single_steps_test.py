"""Single, step by step: it resumes bit-identically and keeps to its rates."""

import pathlib
import subprocess
import sys

import pytest

# TensorFlow starts and traces slowly on a machine that may be busy.
pytestmark = pytest.mark.timeout(400)

_ROOT = pathlib.Path(__file__).resolve().parents[2]

# check of `single_steps`, algorithm
CHECKS = [
  ("saved_between_any_two_steps", "apex_dqn"),
  ("saved_between_any_two_steps", "ppo"),
  ("saved_between_any_two_steps", "r2d2"),
  pytest.param(
    "saved_between_any_two_steps", "rainbow", marks=pytest.mark.chaos
  ),
  pytest.param("saved_between_any_two_steps", "sac", marks=pytest.mark.chaos),
  ("interrupted_evaluation", "frozen"),
  ("limit_that_is_raised", "frozen"),
  ("changed_ratio", "frozen"),
  ("evaluations_of_another_size", "frozen"),
]


@pytest.mark.parametrize(("check", "algorithm"), CHECKS)
def test_step_by_step(tmp_path, check, algorithm):
  done = subprocess.run(
    [
      *(sys.executable, "-m", "tests.launch.single_steps"),
      *(check, algorithm, tmp_path),
    ],
    capture_output=True,
    text=True,
    cwd=_ROOT,
  )
  assert done.returncode == 0, done.stderr
