"""Ledger: sums, means, rates, waits and who has finished."""

import re
import types

import pytest

from configs import apex_dqn
from launch.orchestration import ledger as ledger_lib
from launch.orchestration import waits
from launch.runs import run_counters

EXPECTED = {"replay": 0, "trainer": 1, "worker": 3, "proxy": 1}


def make_ledger(resumed=None, **expected):
  return ledger_lib.Ledger(
    apex_dqn.get_config(), "a-run", {**EXPECTED, **expected}, 0.0, resumed
  )


def workers(**values):
  """Reports of workers 0, 1, ...: of each metric a value for each of them."""
  reports = [
    dict(zip(values, of_one, strict=True))
    for of_one in zip(*values.values(), strict=True)
  ]
  return [("worker", index, report) for index, report in enumerate(reports)]


def waiting(*waits_s, reason=waits.TABLE):
  """Reports of workers 0, 1, ... that wait for one thing."""
  return [
    ("worker", i, {"waiting_s": wait_s, "waiting_for": reason})
    for i, wait_s in enumerate(waits_s)
  ]


@pytest.fixture
def clock(monkeypatch):
  """The ledger's clock, which a test sets: `clock.now_s`."""
  clock = types.SimpleNamespace(now_s=8.0)
  clock.monotonic = lambda: clock.now_s
  clock.time = lambda: 1.6e9 + clock.now_s
  monkeypatch.setattr(ledger_lib, "time", clock)
  return clock


# Two machines' proxies, and their workers' own reports.
PROXIES = [
  ("proxy", 0, {
    "connections": 3, "connections_refused": 6, "bytes_up": 40, "bytes_down": 4,
    "variables_fetched": 9, "restarts": 1,
    "variables_version": 9, "variables_age_s": 0.2,
    "workers": {"0": {"streams": 1, "bytes_up": 30, "bytes_down": 3},
                "1": {"streams": 2, "bytes_up": 10, "bytes_down": 1}},
  }),
  ("proxy", 1, {
    "connections": 1, "bytes_up": 2, "bytes_down": 1, "variables_fetched": 7,
    "restarts": 0, "variables_version": 8, "variables_age_s": 0.5,
    "workers": {"2": {"streams": 1, "bytes_up": 2, "bytes_down": 1}},
  }),
  ("worker", 2, {"env_steps": 6, "items_confirmed": 5, "items_lost": 1,
                 "reconnects": 2}),
  ("worker", 0, {"env_steps": 5}),
]  # fmt: skip
SILENT_PROXY = {
  "connections": 0, "connections_refused": 0, "bytes_up": 0, "bytes_down": 0,
  "variables_fetched": 0, "restarts": 0, "bytes_up_per_s": 0.0,
  "variables_version": None, "variables_age_s": None,
}  # fmt: skip

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
  ([("replay", 0, {"replay": {"size": 6, "sampled": 9}})], "replay_size", 6),
  ([("replay", 0, {"replay": {"size": 6, "sampled": 9}})], "sampled", 9),
  (workers(items_written=[5, 2]), "items_written", 7),
  (workers(items_confirmed=[4, 2]), "items_confirmed", 6),
  (workers(items_lost=[1, 2]), "items_lost", 3),
  (workers(reconnects=[2, 2]), "reconnects", 4),
  ([], "proxy", SILENT_PROXY),
  ([("proxy", 0, {"bytes_up": 4})], "proxy", {**SILENT_PROXY, "bytes_up": 4}),
  (PROXIES, "proxy",
   {"connections": 4, "connections_refused": 6, "bytes_up": 42,
    "bytes_down": 5, "variables_fetched": 16, "restarts": 1,
    "bytes_up_per_s": 0.0, "variables_version": 8, "variables_age_s": 0.5}),
  ([], "workers", {}),
  (PROXIES, "workers",
   {"0": {"streams": 1, "bytes_up": 30, "bytes_down": 3},
    "1": {"streams": 2, "bytes_up": 10, "bytes_down": 1},
    "2": {"items_confirmed": 5, "items_lost": 1, "reconnects": 2,
          "streams": 1, "bytes_up": 2, "bytes_down": 1}}),
  (workers(env_steps=[1, 1]), "nodes",
   # Roles without nodes, as the evaluator here, are left out.
   {"replay": [0, 1], "trainer": [0, 1], "worker": [2, 3], "proxy": [0, 2]}),
]  # fmt: skip


@pytest.mark.parametrize(("reports", "field", "value"), STATUSES)
def test_status(reports, field, value):
  ledger = make_ledger(evaluator=0, replay=1, proxy=2)
  for role, index, metrics in reports:
    ledger.report(role, index, metrics)
  assert ledger.status()[field] == value


def test_shards_are_added_up():
  config = apex_dqn.get_config()
  config.replay.update(
    shards=2, capacity=1_000, min_size=200, transitions_per_item=1
  )
  ledger = ledger_lib.Ledger(config, "a-run", {**EXPECTED, "replay": 2}, 0.0)
  assert ledger.status()["replay_shards"] == {}
  began_at = {"inserted": 0}
  tables = [
    {"size": 400, "inserted": 700, "sampled": 2_400},
    # It has not the 100 items yet from which samples count.
    {"size": 60, "inserted": 60, "sampled": 0},
  ]
  for index, table in enumerate(tables):
    ledger.report(
      "replay", index, {"life": 1.0, "replay": table, "began_at": began_at}
    )
  ledger.report("trainer", 0, {"shards_up": 1})
  status = ledger.status()
  assert status["replay_capacity"] == 1_000
  assert status["replay_size"] == 460
  assert (status["inserted"], status["sampled"]) == (760, 2_400)
  assert status["samples_per_insert"] == 2_400 / 600
  assert status["replay_shards"] == {"0": tables[0], "1": tables[1]}
  assert status["replay_shards_up"] == 1

  # One begins at a snapshot: what it had since is lost, and nothing else.
  ledger.report("worker", 0, {"env_steps": 900})
  again = {"size": 400, "inserted": 650, "sampled": 2_000}
  ledger.report(
    "replay",
    0,
    {"life": 2.0, "replay": again, "began_at": {"inserted": 640}},
  )
  status = ledger.status()
  assert status["items_lost"] == 60
  assert status["env_steps_lost"] == 60
  assert status["inserted"] == 710
  assert ledger.counters().replay_size == 460


def test_what_was_asked_for_is_in_the_status():
  status = make_ledger().status()
  config = apex_dqn.get_config()
  assert status["replay_capacity"] == 50_000 // 4, "in items"
  assert status["samples_per_insert_asked"] == config.replay.samples_per_insert
  assert status["limits"] == config.limits.to_dict()
  assert status["name"] == "a-run"


PROXY_WAITS = {"waiting_s": 7.0, "server": "localhost:7000"}

# reports, words of what is waiting
WAITS = [
  (waiting(None, 2.9, 1.0), None),
  (waiting(None, 3.4, 1.0), "1 of 3 workers wait for the table to take items"),
  (waiting(8.2, 3.4), "(8 s): the trainer is behind"),
  (waiting(8.2, 3.4), "2 of 3 workers wait"),
  ([("worker", 0, {"waiting_s": 8.2, "waiting_for": None})], None),
  # It waits no more; or it has ended.
  (waiting(8.2) + workers(waiting_s=[None]), None),
  (waiting(8.2) + workers(env_steps=[7]), "1 of 3 workers wait"),
  ([("trainer", 0, {"starved_s": 2.9})], None),
  ([("trainer", 0, {"starved_s": None})], None),
  ([("trainer", 0, {"starved_s": 4.0})], "(4 s): the workers are behind"),
  # Where both wait, the full table is the cause.
  ([("trainer", 0, {"starved_s": 9.0}), *waiting(5.0)],
   "the trainer is behind"),
  ([("proxy", 0, PROXY_WAITS)],
   "the proxy waits for the replay server at localhost:7000, which does not "
   "answer, since "),
  ([("proxy", 0, {**PROXY_WAITS, "waiting_s": None})], None),
  ([("proxy", 0, PROXY_WAITS), ("trainer", 0, {"starved_s": 9.0})],
   "the proxy waits"),
  ([("proxy", 0, PROXY_WAITS), *waiting(5.0, reason="the proxy")],
   "1 of 3 workers wait for the proxy, since "),
]  # fmt: skip


@pytest.mark.parametrize(("reports", "says"), WAITS)
def test_who_waits(reports, says):
  ledger = make_ledger()
  for role, index, metrics in reports:
    ledger.report(role, index, metrics)
  said = ledger.status()["waiting"]
  assert said is None if says is None else says in said


def test_a_node_that_was_started_again_goes_on_counting():
  ledger = make_ledger()

  def report(life, steps, written, confirmed, lost):
    ledger.report(
      "worker",
      1,
      {
        "life": life,
        "env_steps": steps,
        "items_written": written,
        "items_confirmed": confirmed,
        "items_lost": lost,
        "training_return": 10.0 * life,
      },
    )

  def counts():
    names = ("env_steps", "items_written", "items_confirmed", "items_lost")
    return [ledger.status()[name] for name in names]

  report(1.0, 100, 90, 80, 4)
  report(1.0, 110, 99, 88, 4)
  assert counts() == [110, 99, 88, 4]
  assert ledger.status()["node_restarts"] == {}
  # Of the 99, 7 were in flight when it died.
  report(2.0, 5, 3, 1, 0)
  assert counts() == [115, 102, 89, 11]
  assert ledger.status()["training_return"] == 20.0
  report(2.0, 8, 4, 4, 0)
  report(3.0, 1, 1, 1, 0)
  assert counts() == [119, 104, 93, 11]
  assert ledger.status()["node_restarts"] == {"worker/1": 2}
  assert ledger.status()["restarts"] == 2


def test_who_has_ended_waits_no_more():
  ledger = make_ledger()
  ((role, index, metrics),) = waiting(8.0)
  ledger.report(role, index, metrics)
  assert "1 of 3 workers" in ledger.status()["waiting"]
  ledger.report(role, index, {}, finished=True)
  assert ledger.status()["waiting"] is None


def test_the_beginning_of_a_wait_is_kept(clock):
  ledger = make_ledger()

  def since():
    (said,) = re.findall(r"since (\S+ \(\d+ s\))", ledger.status()["waiting"])
    return said

  ledger.report("trainer", 0, {"starved_s": 4.0})
  before = since()
  # A report that came late, and none for a while: it waits on.
  clock.now_s += 6.0
  ledger.report("trainer", 0, {"starved_s": 9.4})
  assert since() == before.replace("(4 s)", "(10 s)")
  clock.now_s += 10.0
  assert since() == before.replace("(4 s)", "(20 s)")
  # Another wait.
  ledger.report("trainer", 0, {"starved_s": 5.0})
  assert since().endswith("(5 s)")
  assert since()[:8] != before[:8]


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


def test_who_has_no_machine_is_not_waited_for(clock):
  ledger = make_ledger(worker=3)
  clock.now_s = 10.0
  for index in range(3):
    ledger.report("worker", index, {"env_steps": 5, "collected_version": 2})
  assert ledger.all_up() is False  # neither trainer nor proxy
  ledger.report("worker", 0, {}, finished=True)
  ledger.miss([("worker", 2), ("trainer", 0), ("proxy", 0)])
  assert ledger.all_up()
  assert ledger.collected_version() == 0  # worker 0 has ended
  assert not ledger.finished("worker")
  ledger.report("worker", 1, {}, finished=True)
  assert ledger.finished("worker")
  status = ledger.status()
  assert status["env_steps"] == 15  # what was done is done
  assert status["nodes"]["worker"] == [0, 3]
  clock.now_s = 100.0
  assert ledger.silent() == []
  assert not ledger.unheard_since(50.0)
  ledger.miss([])
  assert not ledger.finished("worker")
  assert ledger.silent() == ["worker 2"]
  assert ledger.unheard_since(50.0)


def test_a_node_that_fell_silent(clock):
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


def test_who_is_silent(clock):
  ledger = make_ledger()
  for index in range(3):
    ledger.report("worker", index, {"env_steps": 1})
  ledger.report("worker", 2, {}, finished=True)
  clock.now_s += 4.9
  assert ledger.silent() == []
  ledger.report("worker", 0, {})
  clock.now_s += 0.2
  assert ledger.silent() == ["worker 1"]


def test_reasons_that_are_left_out():
  ledger = make_ledger()
  for report in [*waiting(5.0), ("trainer", 0, {"starved_s": 9.0})]:
    ledger.report(*report)
  assert ledger.waiting(but=waits.LIMITER) is None
  assert "workers" in ledger.waiting(but=[waits.TRANSITIONS])
  assert "the trainer waits" in ledger.waiting(but=[waits.TABLE])
  ((_, _, gone),) = waiting(4.0, reason="the proxy")
  ledger.report("worker", 1, gone)
  said = ledger.waiting(but=waits.LIMITER)
  assert said.startswith("1 of 3 workers wait for the proxy, since ")


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


def test_rates_of_the_status(clock):
  ledger = make_ledger()
  for steps in (0, 30):
    clock.now_s += 2.0
    for role, index, metrics in [
      *workers(env_steps=[steps, 2 * steps]),
      *workers(items_confirmed=[steps // 2, steps]),
      ("trainer", 0, {"trainer_steps": steps // 3}),
      ("proxy", 0, {"bytes_up": 8 * steps}),
    ]:
      ledger.report(role, index, metrics)
    ledger.update_rates()
  status = ledger.status()
  assert status["env_steps_per_s"] == 45.0
  assert status["trainer_steps_per_s"] == 5.0
  assert status["items_per_s"] == 22.5
  assert status["proxy"]["bytes_up_per_s"] == 120.0


def test_without_a_proxy_there_is_nothing_of_it():
  assert make_ledger(proxy=0).status()["proxy"] == {}


def test_a_worker_that_is_taken_away_keeps_what_it_did():
  ledger = make_ledger()
  for role, index, metrics in workers(life=[1.0] * 3, env_steps=[1, 2, 4]):
    ledger.report(role, index, metrics)
  ledger.report("worker", 2, {"life": 1.0, "env_steps": 5}, finished=True)
  ledger.expect("worker", 2)
  status = ledger.status()
  assert status["env_steps"] == 8
  assert status["nodes"]["worker"] == [2, 2]
  assert not ledger.finished("worker")
  # It is asked for again: its next life is up.
  ledger.expect("worker", 3)
  ledger.report("worker", 2, {"life": 2.0, "env_steps": 1})
  assert ledger.status()["nodes"]["worker"] == [3, 3]
  assert ledger.status()["env_steps"] == 9


def test_what_is_lost_where_a_trainer_begins_at_a_snapshot():
  ledger = make_ledger()
  ledger.report("worker", 0, {"env_steps": 900, "items_written": 800,
                              "items_confirmed": 790})  # fmt: skip
  counts = {"trainer_steps": 70, "replay": {"inserted": 780}}
  first = {"env_steps": 0, "trainer_steps": 0, "inserted": 0}
  ledger.report("trainer", 0, {"life": 1.0, "began_at": first, **counts})
  names = ("env_steps_lost", "trainer_steps_lost", "items_lost")
  assert [ledger.status()[name] for name in names] == [0, 0, 0]
  began_at = {"env_steps": 600, "trainer_steps": 50, "inserted": 500}
  for steps in (52, 60):
    ledger.report(
      "trainer", 0, {"life": 2.0, "began_at": began_at, "trainer_steps": steps}
    )
    assert [ledger.status()[name] for name in names] == [300, 20, 280]
  assert ledger.status()["trainer_steps"] == 60
  assert ledger.status()["node_restarts"] == {"trainer/0": 1}
  resumed = make_ledger(ledger.counters())
  assert [resumed.status()[name] for name in names] == [300, 20, 280]


def test_a_resumed_run_counts_on(clock):
  ledger = make_ledger()
  clock.now_s = 100.0
  for role, index, metrics in workers(
    env_steps=[10, 20], items_written=[9, 18]
  ):
    ledger.report(role, index, {"life": 1.0, **metrics})
  ledger.report("worker", 0, {"life": 2.0, "env_steps": 5})
  ledger.report(
    "trainer",
    0,
    {"trainer_steps": 7, "variables_version": 3, "replay": {"size": 25}},
  )
  ledger.add_evaluation({"eval_return": 8.0})
  ledger.add_evaluation({"eval_return": 6.0})
  before = ledger.status()
  saved = run_counters.RunCounters.from_json(ledger.counters().to_json())

  resumed = make_ledger(saved)
  status = resumed.status()
  for name in (
    *("env_steps", "trainer_steps", "items_written", "replay_size"),
    *("eval_return", "best_eval_return", "evaluations", "restarts"),
  ):
    assert status[name] == before[name]
  assert status["wall_s"] == before["wall_s"] + 1.6e9 + clock.now_s
  assert status["nodes"]["worker"] == [0, 3]
  assert (before["resumes"], status["resumes"]) == (0, 1)
  assert not resumed.all_up()
  assert resumed.variables_version() == 3
  assert resumed.lives("worker", 0) == (2, 15)
  assert resumed.lives("worker", 2) == (0, 0)
  resumed.report("worker", 0, {"life": 3.0, "env_steps": 100})
  assert resumed.status()["env_steps"] == 135
  assert resumed.status()["restarts"] == before["restarts"], "a resume is none"
  assert resumed.lives("worker", 0) == (3, 115)
  assert not resumed.add_evaluation({"eval_return": 7.0})
  assert resumed.status()["evaluations"] == 3


def test_when_all_have_collected_their_share():
  ledger = make_ledger()
  assert ledger.collected_version() == 0
  for role, index, metrics in workers(collected_version=[4, 5]):
    ledger.report(role, index, metrics)
  assert ledger.collected_version() == 0, "the third is not up"
  ledger.report("worker", 2, {"collected_version": 5})
  assert ledger.collected_version() == 4
  ledger.expect("worker", 2)
  ledger.report("worker", 0, {"collected_version": 5})
  assert ledger.collected_version() == 5


def test_learning_begins_with_the_first_step_of_this_life_of_the_run(clock):
  ledger = make_ledger()
  for role, index, metrics in workers(env_steps=[10, 20]):
    ledger.report(role, index, metrics)
  ledger.report("trainer", 0, {"trainer_steps": 60, "first_step_at_s": None})
  assert ledger.status()["learning_since"] is None
  ledger.report("trainer", 0, {"trainer_steps": 61, "first_step_at_s": 5.0})
  since = {"wall_s": 1.6e9 + 8.0, "env_steps": 30, "trainer_steps": 61}
  assert ledger.status()["learning_since"] == since
  # A trainer that is started again learns on.
  clock.now_s += 9.0
  ledger.report("trainer", 0, {"trainer_steps": 50, "first_step_at_s": 12.0})
  assert ledger.status()["learning_since"] == since
  assert ledger.status()["start_up_s"] == 5.0


def test_who_has_not_reported_since(clock):
  ledger = make_ledger()
  for index in range(2):
    ledger.report("worker", index, {})
  ledger.report("worker", 2, {}, finished=True)
  clock.now_s += 1.0
  assert ledger.unheard_since(clock.now_s)
  ledger.report("worker", 0, {})
  assert ledger.unheard_since(clock.now_s)
  ledger.report("worker", 1, {})
  assert not ledger.unheard_since(clock.now_s)
