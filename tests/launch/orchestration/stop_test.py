"""Tests of Stop: when each role may stop, and when the run has ended."""

import pytest

from slipway.launch.orchestration import (
  messages,
  node_state,
  node_states,
  stop_order,
)
from slipway.launch.orchestration import stop as stop_lib
from tests.launch.orchestration import given

EXPECTED = {"worker": 2, "evaluator": 1, "proxy": 1, "trainer": 1, "replay": 1}
FINISHING = messages.TrainerReport(
  snapshots=messages.SnapshotReport(finishing_s=0.0)
)
FIRST_GROUP = stop_order.GROUPS[0]


class Nodes:
  """The nodes of a run, and its stop, with a simulated clock."""

  def __init__(self, clock, expected):
    self._clock, self._expected = clock, expected
    self._states = node_states.NodeStates(expected, has_table=True)
    self.stop = stop_lib.Stop(self._states, clock.now_s)

  def report(self, role, index, report=None, finished=False):
    report = report or messages.EvaluatorReport()
    self._states.find_or_add(role, index).record(report, finished)

  def report_all(self, *roles):
    for role in roles:
      for index in range(self._expected[role]):
        self.report(role, index)

  def end_all(self, *roles):
    for role in roles:
      for index in range(self._expected[role]):
        self.report(role, index, finished=True)

  def request_stop(self, reason="a test", **settings):
    return self.stop.request(reason, self._clock.now_s, **settings)

  def step(self, seconds):
    self._clock.now_s += seconds
    self.stop.update(self._clock.now_s)

  @property
  def may_stop(self):
    """Roles whose nodes may stop."""
    return {
      role
      for role in self._expected
      if self.stop.may_stop(role, self._clock.now_s)
    }

  @property
  def all_finished(self):
    return self.stop.all_finished(self._clock.now_s)


@pytest.fixture
def make_nodes(monkeypatch):
  """Returns a function that makes nodes, some of which have reported."""
  clock = given.set_clock(monkeypatch, node_states, node_state)
  clock.now_s = 100.0

  def make(expected=EXPECTED, reported=None):
    nodes = Nodes(clock, expected)
    nodes.report_all(*(expected if reported is None else reported))
    nodes.step(0.0)
    return nodes

  return make


def test_a_run_that_is_not_stopped(make_nodes):
  nodes = make_nodes()
  nodes.end_all(*EXPECTED)
  nodes.step(100.0)
  assert nodes.stop.reason is None
  assert nodes.may_stop == set()
  assert not nodes.all_finished
  nodes.stop.check_not_requested()


def test_the_first_request_has_the_reason(make_nodes):
  nodes = make_nodes()
  assert nodes.request_stop("environment_steps")
  assert not nodes.request_stop("SIGTERM")
  assert nodes.stop.reason == "environment_steps"
  with pytest.raises(ValueError, match=r"stopping \(environment_steps\)"):
    nodes.stop.check_not_requested()


def test_groups_stop_one_after_the_other(make_nodes):
  nodes = make_nodes()
  nodes.request_stop()
  stopping = set()
  for group in stop_order.GROUPS:
    stopping |= set(group.roles)
    for role in group.roles:
      assert nodes.may_stop == stopping
      assert not nodes.all_finished
      nodes.end_all(role)
  assert nodes.all_finished


def test_a_stop_does_not_wait_for_a_role_without_nodes(make_nodes):
  nodes = make_nodes({"worker": 1, "evaluator": 1, "trainer": 1})
  nodes.request_stop()
  nodes.end_all("worker")
  assert "trainer" not in nodes.may_stop
  nodes.end_all("evaluator")
  assert "trainer" in nodes.may_stop


def test_a_group_that_hangs_is_skipped_after_its_grace_period(make_nodes):
  nodes = make_nodes()
  nodes.request_stop()
  stopping = set()
  for group in stop_order.GROUPS:
    stopping |= set(group.roles)
    assert nodes.may_stop == stopping
    nodes.step(0.9 * group.grace_s)
    assert nodes.may_stop == stopping
    assert not nodes.all_finished
    nodes.step(0.11 * group.grace_s)
  assert nodes.all_finished


def test_a_stop_waits_only_briefly_for_a_node_that_never_starts(make_nodes):
  nodes = make_nodes(reported=("evaluator", "proxy", "trainer", "replay"))
  nodes.request_stop()
  nodes.end_all("evaluator", "proxy", "trainer", "replay")
  nodes.step(14.0)
  nodes.step(0.9 * FIRST_GROUP.grace_s)
  assert "trainer" not in nodes.may_stop  # a worker may still start
  nodes.step(0.11 * FIRST_GROUP.grace_s)
  assert "trainer" in nodes.may_stop
  nodes.step(stop_order.LONGEST_S)
  assert nodes.all_finished


def test_a_forced_stop_waits_for_no_node_that_starts_or_is_silent(make_nodes):
  nodes = make_nodes(reported=["trainer"])
  nodes.request_stop("failure", forced=True)
  nodes.step(0.9 * FIRST_GROUP.grace_s)
  assert "trainer" not in nodes.may_stop
  nodes.step(0.11 * FIRST_GROUP.grace_s)
  assert "trainer" in nodes.may_stop

  nodes = make_nodes()
  nodes.request_stop()
  nodes.step(2.1)
  assert not nodes.all_finished
  nodes.request_stop("failure", forced=True)
  assert nodes.all_finished


# reason, whether the stop is forced, whether the last snapshot has minutes
REASONS = [
  ("environment_steps", False, True),
  ("stopped by a command", False, True),
  ("SIGTERM", False, False),
  ("failure", True, False),
]


@pytest.mark.parametrize(("reason", "forced", "has_minutes"), REASONS)
def test_the_time_for_the_last_snapshot(
  make_nodes, reason, forced, has_minutes
):
  nodes = make_nodes()
  nodes.request_stop(reason, forced=forced)
  assert (nodes.stop.last_snapshot_s > 300.0) == has_minutes
  assert (nodes.stop.last_snapshot_s < 10.0) != has_minutes
  nodes.end_all(*FIRST_GROUP.roles)
  for _ in range(300):
    nodes.report("trainer", 0, FINISHING)
    nodes.report("replay", 0)
    nodes.step(1.0)
  assert nodes.all_finished != has_minutes
  assert ("replay" in nodes.may_stop) != has_minutes


def test_a_signal_after_the_request_shortens_the_last_snapshot(make_nodes):
  nodes = make_nodes()
  nodes.request_stop("stopped by a command")
  nodes.end_all(*FIRST_GROUP.roles)
  for seconds, finished in ((60, False), (10, True)):
    for _ in range(seconds):
      nodes.report("trainer", 0, FINISHING)
      nodes.step(1.0)
    assert nodes.all_finished == finished
    nodes.request_stop("SIGTERM")
  assert nodes.stop.reason == "stopped by a command"


def test_a_trainer_that_dies_in_its_last_snapshot_is_not_awaited(make_nodes):
  nodes = make_nodes()
  nodes.request_stop("environment_steps")
  nodes.end_all(*FIRST_GROUP.roles)
  nodes.report("trainer", 0, FINISHING)
  for _ in range(13):
    assert not nodes.all_finished
    nodes.step(1.0)
  nodes.step(3.0)
  assert nodes.all_finished


def test_an_unknown_role(make_nodes):
  nodes = make_nodes()
  nodes.request_stop()
  with pytest.raises(ValueError, match="'trainor'"):
    nodes.stop.may_stop("trainor", 200.0)
