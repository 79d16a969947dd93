"""Ledger: sums, means, rates, waits and who has finished."""

import math
import time
import types

import pytest

from configs import apex_dqn
from launch import ledger as ledger_lib

EXPECTED = {"replay": 0, "trainer": 1, "worker": 3, "proxy": 1}


def make_ledger(now_s=0.0):
  return ledger_lib.Ledger(apex_dqn.get_config(), "a-run", EXPECTED, now_s)


def workers(**values):
  """Reports of workers 0, 1, ...: one metric, a value for each of them."""
  ((metric, of_each),) = values.items()
  return [("worker", i, {metric: value}) for i, value in enumerate(of_each)]


# reports, field of the status, its value
STATUSES = [
  ([], "env_steps", 0),
  ([], "trainer_steps", 0),
  ([], "start_up_s", None),
  ([], "eval_return", None),
  ([], "training_return", None),
  ([], "waiting", None),
  (workers(env_steps=[10, 20]), "env_steps", 30),
  (workers(env_steps=[10, 20]) + workers(env_steps=[11]), "env_steps", 31),
  # A report is whole or in parts; what it leaves out stays.
  (workers(env_steps=[10]) + workers(waiting_s=[0.1]), "env_steps", 10),
  (workers(training_return=[3.0, None, 5.0]), "training_return", 4.0),
  (workers(variables_age_s=[None, None]), "variables_age_s", None),
  ([("trainer", 0, {"trainer_steps": 7})], "trainer_steps", 7),
  ([("trainer", 0, {"first_step_at_s": 12.5})], "start_up_s", 12.5),
  ([("trainer", 0, {"metrics": {"loss": 2.0}})], "metrics", {"loss": 2.0}),
  # Replay is told of by the trainer that hosts it, or by its own process.
  ([("trainer", 0, {"replay": {"size": 5}})], "replay_size", 5),
  ([("replay", 0, {"size": 6, "sampled": 9})], "replay_size", 6),
  ([("replay", 0, {"size": 6, "sampled": 9})], "sampled", 9),
  ([("proxy", 0, {"bytes_up": 4})], "proxy",
   {"bytes_up": 4, "bytes_up_per_s": 0.0}),
  (workers(env_steps=[1, 1]), "nodes",
   # Roles without nodes are left out.
   {"trainer": [0, 1], "worker": [2, 3], "proxy": [0, 1]}),
]  # fmt: skip


@pytest.mark.parametrize(("reports", "field", "value"), STATUSES)
def test_status(reports, field, value):
  ledger = make_ledger()
  for role, index, metrics in reports:
    ledger.report(role, index, metrics)
  assert ledger.status()[field] == value


def test_what_was_asked_for_is_in_the_status():
  status = make_ledger().status()
  config = apex_dqn.get_config()
  assert status["replay_capacity"] == config.replay.capacity
  assert status["samples_per_insert_asked"] == config.replay.samples_per_insert
  assert status["limits"] == config.limits.to_dict()
  assert status["name"] == "a-run"


# reports, words of what is waiting
WAITS = [
  (workers(waiting_s=[None, 2.9, 1.0]), None),
  (workers(waiting_s=[None, 3.4, 1.0]), "1 of 3 workers wait"),
  (workers(waiting_s=[8.2, 3.4]), "for 8 s: the trainer is behind"),
  (workers(waiting_s=[8.2, 3.4]), "2 of 3 workers wait"),
  ([("trainer", 0, {"starved_s": 2.9})], None),
  ([("trainer", 0, {"starved_s": None})], None),
  ([("trainer", 0, {"starved_s": 4.0})], "for 4 s: the workers are behind"),
  # Where both wait, the full table is the cause.
  ([("trainer", 0, {"starved_s": 9.0}), *workers(waiting_s=[5.0])],
   "the trainer is behind"),
]  # fmt: skip


@pytest.mark.parametrize(("reports", "says"), WAITS)
def test_who_waits(reports, says):
  ledger = make_ledger()
  for role, index, metrics in reports:
    ledger.report(role, index, metrics)
  waiting = ledger.status()["waiting"]
  assert waiting is None if says is None else says in waiting


def test_a_role_has_finished_when_all_its_nodes_have():
  ledger = make_ledger()
  assert ledger.finished("replay")  # There is none.
  assert ledger.finished("no such role")
  for index in range(3):
    assert not ledger.finished("worker")
    ledger.report("worker", index, {"env_steps": 1}, finished=True)
  assert ledger.finished("worker")
  # A late report does not bring a node back.
  ledger.report("worker", 1, {"env_steps": 2})
  assert ledger.finished("worker")
  assert ledger.status()["nodes"]["worker"] == [0, 3]
  assert ledger.status()["env_steps"] == 4


def test_a_node_that_fell_silent(monkeypatch):
  clock = types.SimpleNamespace(now_s=8.0, time=time.time)
  clock.monotonic = lambda: clock.now_s
  monkeypatch.setattr(ledger_lib, "time", clock)
  ledger = make_ledger()
  assert not ledger.finished("trainer", silent_s=2.0), "never heard of"
  ledger.report("trainer", 0, {})
  clock.now_s += 1.9
  assert not ledger.finished("trainer", silent_s=2.0)
  clock.now_s += 0.2
  assert ledger.finished("trainer", silent_s=2.0)
  assert not ledger.finished("trainer")
  ledger.report("trainer", 0, {})
  assert not ledger.finished("trainer", silent_s=2.0)


def test_all_are_up():
  ledger = make_ledger()
  nodes = [("trainer", 0), ("proxy", 0), *(("worker", i) for i in range(3))]
  for role, index in nodes:
    assert not ledger.all_up()
    ledger.report(role, index, {})
  assert ledger.all_up()


def test_the_best_evaluation():
  ledger = make_ledger()
  returns = [(3.0, True), (1.0, False), (3.0, True), (4.0, True)]
  for count, (value, best) in enumerate(returns, start=1):
    row = {"eval_return": value, "eval_episodes": 20}
    assert ledger.add_evaluation(row) == best
    status = ledger.status()
    assert status["evaluations"] == count
    assert status["eval_return"] == value
  assert ledger.status()["best_eval_return"] == 4.0


# (seconds, count) in their order, and the rate after the last
RATES = [
  ([(0.0, 100)], 0.0),
  ([(0.0, 0), (2.0, 50)], 25.0),
  ([(0.0, 0), (0.0, 50)], 0.0),
  ([(0.0, 0), (4.0, 0), (5.0, 10)], 2.0),
  # Older than the window of 5 s: forgotten.
  ([(0.0, 0), (10.0, 1000), (12.0, 1030)], 15.0),
  ([(0.0, 0), (6.0, 1000)], 0.0),
]


@pytest.mark.parametrize(("samples", "rate"), RATES)
def test_rates(samples, rate):
  measured = ledger_lib.Rate()
  for now_s, count in samples:
    value = measured.add(count, now_s)
  assert math.isclose(value, rate)


def test_rates_of_the_status(monkeypatch):
  clock = types.SimpleNamespace(now_s=8.0, time=time.time)
  clock.monotonic = lambda: clock.now_s
  monkeypatch.setattr(ledger_lib, "time", clock)
  ledger = make_ledger()
  for steps in (0, 30):
    clock.now_s += 2.0
    for role, index, metrics in workers(env_steps=[steps, 2 * steps]):
      ledger.report(role, index, metrics)
    ledger.report("trainer", 0, {"trainer_steps": steps // 3})
    ledger.update_rates()
  status = ledger.status()
  assert status["env_steps_per_s"] == 45.0
  assert status["trainer_steps_per_s"] == 5.0
