"""Control: each limit stops the run, and a run stops in order."""

import csv
import json
import time
import types

import pytest

from configs import dqn
from launch import control as control_lib
from launch import run_folder

EXPECTED = {"worker": 2, "evaluator": 1, "proxy": 1, "trainer": 1, "replay": 1}
NODES = [(role, i) for role, count in EXPECTED.items() for i in range(count)]


@pytest.fixture
def make_control(tmp_path, monkeypatch):
  """Makes control nodes, whose clock a test sets: `control.clock.now_s`."""
  clock = types.SimpleNamespace(now_s=100.0)
  clock.monotonic = lambda: clock.now_s
  monkeypatch.setattr(control_lib, "time", clock)

  def make(expected=EXPECTED, age_s=0.0, **limits):
    config = dqn.get_config()
    config.limits.update(limits)
    folder = run_folder.RunFolder.create(tmp_path, "a-run", overwrite=False)
    folder.write_config(config)
    control = control_lib.Control(config, folder, expected, time.time() - age_s)
    control.clock, control.folder = clock, folder
    return control

  return make


def may_stop(control):
  """The roles that are told to stop."""
  told = {role: control.report(role, i, {}) for role, i in NODES}
  return {role for role, stops in told.items() if stops}


def evaluate(control, value):
  return control.evaluated([value - 1, value + 1], [10, 30], 3)


# limits, what happens, the reason
LIMITS = [
  ({}, lambda c: c.report("worker", 0, {"env_steps": 10**9}), None),
  ({}, lambda c: c.report("trainer", 0, {"trainer_steps": 10**9}), None),
  ({}, lambda c: evaluate(c, 474.9), None),
  ({}, lambda c: evaluate(c, 475.0), "target_return"),
  ({"target_return": float("inf")}, lambda c: evaluate(c, 1e9), None),
  ({"target_return": -5.0}, lambda c: None, None),
  ({"target_return": -5.0}, lambda c: evaluate(c, -4.0), "target_return"),
  (
    {"environment_steps": 30},
    lambda c: [c.report("worker", i, {"env_steps": 14}) for i in range(2)],
    None,
  ),
  (
    {"environment_steps": 30},
    lambda c: [c.report("worker", i, {"env_steps": 15}) for i in range(2)],
    "environment_steps",
  ),
  (
    {"trainer_steps": 7},
    lambda c: c.report("trainer", 0, {"trainer_steps": 6}),
    None,
  ),
  (
    {"trainer_steps": 7},
    lambda c: c.report("trainer", 0, {"trainer_steps": 8}),
    "trainer_steps",
  ),
  ({"wall_clock_s": 1_000.0}, lambda c: None, None),
  ({"wall_clock_s": 49.0}, lambda c: None, "wall_clock_s"),
]


@pytest.mark.parametrize(("limits", "happens", "reason"), LIMITS)
def test_limits(make_control, limits, happens, reason):
  control = make_control(age_s=50.0, **limits)
  happens(control)
  control.tick()
  assert control.status()["stopped_because"] == reason
  assert may_stop(control) == ({"worker", "evaluator"} if reason else set())


def test_the_first_reason_is_kept(make_control):
  control = make_control()
  control.stop("SIGTERM")
  evaluate(control, 500.0)
  control.tick()
  assert control.status()["stopped_because"] == "SIGTERM"


def test_groups_stop_one_after_the_other(make_control):
  control = make_control()
  assert may_stop(control) == set()
  control.stop("SIGINT")
  told = set()
  for group in control_lib.STOP_ORDER:
    told |= set(group)
    for role, index in [node for node in NODES if node[0] in group]:
      assert may_stop(control) == told
      control.finished(role, index, {})
  assert control.status()["nodes"] == {
    role: [0, count] for role, count in EXPECTED.items()
  }


def test_a_role_without_nodes_is_not_waited_for(make_control):
  control = make_control({"worker": 1, "evaluator": 1, "trainer": 1})
  control.stop("SIGINT")
  control.finished("worker", 0, {})
  assert not control.report("trainer", 0, {})
  control.finished("evaluator", 0, {})
  assert control.report("trainer", 0, {})


def test_a_group_that_hangs_is_passed_after_its_grace(make_control):
  control = make_control()
  control.stop("SIGINT")
  told = set()
  for group in control_lib.STOP_ORDER:
    told |= set(group)
    assert may_stop(control) == told
    control.clock.now_s += 0.9 * control_lib.GROUP_GRACE_S
    assert may_stop(control) == told
    control.clock.now_s += 0.11 * control_lib.GROUP_GRACE_S


def test_the_last_group_ends_before_launchpad_kills():
  longest_s = control_lib.GROUP_GRACE_S * len(control_lib.STOP_ORDER)
  assert longest_s < 10.0


def test_an_unknown_role(make_control):
  control = make_control()
  control.stop("SIGINT")
  with pytest.raises(ValueError, match="'trainor'"):
    control.clock.now_s += 100.0
    control.report("trainor", 0, {})


def test_phases(make_control):
  control = make_control()
  assert control.status()["phase"] == "starting"
  control.report("trainer", 0, {"trainer_steps": 1})
  assert control.status()["phase"] == "running"
  control.stop("SIGINT")
  assert control.status()["phase"] == "stopping"
  control.close()
  assert control.status()["phase"] == "stopped"


def test_the_best_evaluation_is_told(make_control):
  control = make_control()
  told = [evaluate(control, value) for value in (3.0, 2.0, 4.0)]
  assert told == [True, False, True]


def test_results(make_control):
  control = make_control(age_s=50.0)
  control.report("worker", 1, {"env_steps": 40})
  control.report("trainer", 0, {"trainer_steps": 5, "first_step_at_s": 1.0})
  evaluate(control, 21.0)
  control.tick()
  control.stop("SIGTERM")
  # What a node tells last of all counts too.
  control.finished("worker", 1, {"env_steps": 44})
  control.close()
  summary = json.loads(control.folder.summary.read_text())
  assert summary["eval_return"] == 21.0
  assert summary["eval_episodes"] == 2
  assert summary["env_steps"] == 44
  assert summary["trainer_steps"] == 5
  assert summary["stopped_because"] == "SIGTERM"
  assert summary["wall_s"] >= 50.0
  with open(control.folder.curves_csv, newline="") as file:
    (row,) = csv.DictReader(file)
  assert (row["env_steps"], row["eval_return"]) == ("40", "21")
  assert row["variables_version"] == "3"
  assert control.folder.curves_png.stat().st_size > 0
  assert len(list(control.folder.events.iterdir())) == 1
