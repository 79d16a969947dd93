"""Tests of NodeStates: which nodes are awaited, silent, waiting or ended."""

import re

import pytest

from slipway.launch.control import messages, node_states, waits
from slipway.launch.runs import run_status
from tests.launch.control import given

Worker = given.make_worker_report
Trainer = messages.TrainerReport
Proxy = messages.ProxyReport


def make_nodes(**expected):
  return node_states.NodeStates({**given.EXPECTED, **expected}, has_table=True)


def record(nodes, role, index, report, finished=False):
  nodes.find_or_add(role, index).record(report, finished)


def record_all(nodes, reports):
  for role, index, report in reports:
    record(nodes, role, index, report)


@pytest.fixture
def clock(monkeypatch):
  """Returns a simulated clock, which a test sets by `clock.now_s`."""
  return given.set_clock(monkeypatch, node_states)


def trainer_waits(wait_s):
  return Trainer(wait=waits.Wait(waits.TRANSITIONS, wait_s))


PROXY_WAIT = Proxy(
  wait=waits.Wait(waits.make_server_reason("localhost:7000"), 7.0)
)

# reports, words that the sentence must contain (None: no sentence)
WAITS = [
  (given.waiting(2.9, 1.0), None),
  (given.waiting(3.4, 1.0),
   "1 of 3 workers wait for the table to take items"),
  (given.waiting(8.2, 3.4), "(8 s): the trainer must sample"),
  (given.waiting(8.2, 3.4), "2 of 3 workers wait"),
  # The worker no longer waits.
  (given.waiting(8.2) + given.workers(wait=[None]), None),
  ([("trainer", 0, trainer_waits(2.9))], None),
  ([("trainer", 0, Trainer())], None),
  ([("trainer", 0, trainer_waits(4.0))], "(4 s): workers must write"),
  # If both sides wait, the full table is the cause.
  ([("trainer", 0, trainer_waits(9.0)), *given.waiting(5.0)],
   "the trainer must sample"),
  ([("proxy", 0, PROXY_WAIT)],
   "the proxy waits for the replay server at localhost:7000, which is "
   "down, since "),
  ([("proxy", 0, Proxy())], None),
  ([("proxy", 0, PROXY_WAIT), ("trainer", 0, trainer_waits(9.0))],
   "the proxy waits"),
  ([("proxy", 0, PROXY_WAIT), *given.waiting(5.0, reason="the proxy")],
   "1 of 3 workers wait for the proxy, since "),
  ([("evaluator", 0, messages.EvaluatorReport(
    wait=waits.Wait(waits.EPISODES, 70.0)))],
   "the evaluator waits for episodes to end, since "),
]  # fmt: skip


@pytest.mark.parametrize(("reports", "words"), WAITS)
def test_waits(reports, words):
  nodes = make_nodes(evaluator=1)
  record_all(nodes, reports)
  sentence = nodes.describe_waits()
  assert sentence is None if words is None else words in sentence


def test_a_node_that_has_ended_no_longer_waits():
  nodes = make_nodes()
  ((role, index, report),) = given.waiting(8.0)
  record(nodes, role, index, report)
  assert "1 of 3 workers" in nodes.describe_waits()
  record(nodes, role, index, report, finished=True)
  assert nodes.describe_waits() is None


def test_the_beginning_of_a_wait_is_kept(clock):
  nodes = make_nodes()

  def since():
    (text,) = re.findall(r"since (\S+ \(\d+ s\))", nodes.describe_waits())
    return text

  record(nodes, "trainer", 0, trainer_waits(4.0))
  before = since()
  # The wait continues during a late report and a time without reports.
  clock.now_s += 6.0
  record(nodes, "trainer", 0, trainer_waits(9.4))
  assert since() == before.replace("(4 s)", "(10 s)")
  clock.now_s += 10.0
  assert since() == before.replace("(4 s)", "(20 s)")
  # A shorter wait is a new one.
  record(nodes, "trainer", 0, trainer_waits(5.0))
  assert since().endswith("(5 s)")
  assert since()[:8] != before[:8]


def test_a_late_report_does_not_undo_the_end_of_a_node():
  nodes = make_nodes()
  for index in range(3):
    record(nodes, "worker", index, Worker(env_steps=1), finished=True)
  record(nodes, "worker", 1, Worker(env_steps=2))
  assert nodes.statuses()["worker"] == run_status.NodesStatus(0, 3)
  assert nodes.sum_counts().env_steps == 4


def test_the_run_does_not_wait_for_nodes_without_a_machine(clock):
  nodes = make_nodes(worker=3)
  clock.now_s = 10.0
  report = Worker(env_steps=5, collected_version=2)
  for index in range(3):
    record(nodes, "worker", index, report)
  record(nodes, "worker", 0, report, finished=True)
  nodes.set_absent([("worker", 2), ("trainer", 0), ("proxy", 0)])
  assert nodes.collected_version() == 0  # worker 0 has ended
  record(nodes, "worker", 1, report, finished=True)
  assert nodes.sum_counts().env_steps == 15
  assert nodes.statuses()["worker"] == run_status.NodesStatus(0, 3)
  clock.now_s = 100.0
  assert nodes.find_silent_nodes() == []
  nodes.set_absent([])
  assert nodes.find_silent_nodes() == ["worker 2"]


def test_silent_nodes(clock):
  nodes = make_nodes()
  for index in range(3):
    record(nodes, "worker", index, Worker(env_steps=1))
  record(nodes, "worker", 2, Worker(), finished=True)
  clock.now_s += 4.9
  assert nodes.find_silent_nodes() == []
  record(nodes, "worker", 0, Worker())
  clock.now_s += 0.2
  assert nodes.find_silent_nodes() == ["worker 1"]


def test_reasons_that_are_ignored():
  nodes = make_nodes()
  record_all(nodes, [*given.waiting(5.0), ("trainer", 0, trainer_waits(9.0))])
  assert "workers" in nodes.describe_waits(ignored=[waits.TRANSITIONS])
  assert "the trainer waits" in nodes.describe_waits(ignored=[waits.TABLE])


def test_a_version_is_collected_once_all_workers_have_reported_it():
  nodes = make_nodes()
  assert nodes.collected_version() == 0
  record_all(nodes, given.workers(collected_version=[4, 5]))
  assert nodes.collected_version() == 0, "worker 2 has not started"
  record(nodes, "worker", 2, Worker(collected_version=5))
  assert nodes.collected_version() == 4
  nodes.set_expected("worker", 2)
  record(nodes, "worker", 0, Worker(collected_version=5))
  assert nodes.collected_version() == 5


@pytest.mark.parametrize(
  ("live", "shares"),
  [
    ({}, [1.0, 1.0, 1.0]),
    ({0: 4}, [1.0, 0.25, 0.25]),
    # The driver host has no workers, and the machines differ in size.
    ({0: 0, 1: 2, 2: 6}, [0.125, 0.25, 0.75]),
    ({0: 0, 1: 0, 2: 0}, [1.0, 1.0, 1.0]),
  ],
)
def test_proxies_share_the_rate_by_their_live_workers(live, shares):
  nodes = make_nodes(proxy=3)
  record_all(
    nodes, [("proxy", i, Proxy(live_workers=n)) for i, n in live.items()]
  )
  assert [nodes.compute_proxy_share(i) for i in range(3)] == shares
