"""Tests of the benchmark of `slipway doctor`: cases, verdicts and page."""

import gymnasium
import pytest

from benchmarks import doctor, faulty
from slipway.launch.diagnosis import finding

CASE = doctor.Case("dqn:cartpole", "a fault", (), ("seed",))


def make_findings(*names):
  return [finding.Finding(name, finding.PROBLEM, "") for name in names]


@pytest.mark.parametrize(
  ("case", "names", "verdict"),
  [
    (CASE, ["replay", "seed"], "right"),
    (CASE, ["replay", "discount", "values", "seed"], "wrong"),
    (CASE, [], "wrong"),
    (doctor.Case("dqn:cartpole"), [], "right"),
    (doctor.Case("dqn:cartpole"), ["seed"], "wrong"),
  ],
)
def test_a_verdict(case, names, verdict):
  row = doctor.make_row("held_out", case, make_findings(*names))
  assert row["verdict"] == verdict


def test_each_fault_has_a_cause_and_each_wrapper_exists():
  for case in (*doctor.DEVELOPMENT, *doctor.HELD_OUT):
    assert case.changes and case.causes
    for change in case.changes:
      if "benchmarks.faulty:" in change:
        name = change.partition("faulty:")[2].strip("',)")
        assert issubclass(getattr(faulty, name), gymnasium.Env)
  assert len(doctor.DEVELOPMENT) + len(doctor.HELD_OUT) == 30


def test_the_goals_count_faults_and_good_runs_apart():
  rows = [
    doctor.make_row("development", CASE, make_findings("seed")),
    doctor.make_row("held_out", CASE, []),
    doctor.make_row("held_out", doctor.Case("dqn:cartpole"), []),
  ]
  faults, good = doctor.make_report(rows).goals
  assert faults.startswith("1 of 2 faults named (0 of 1 of those held out)")
  assert good.startswith("1 of 1 good runs")
