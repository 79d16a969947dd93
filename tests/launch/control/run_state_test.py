"""Tests of RunState: the status, counters, and restarts."""

import msgspec
import pytest

from slipway.configs import apex_dqn, ppo
from slipway.environments import factory
from slipway.launch.control import messages, node_states, run_state
from slipway.launch.control import rates as rates_lib
from slipway.launch.runs import curves, records, run_counters, run_status
from slipway.replay.tables import table_status
from tests.launch.control import given

Worker = given.make_worker_report
Trainer = messages.TrainerReport
Proxy = messages.ProxyReport
Replay = messages.ReplayReport
Table = table_status.TableStatus
WorkerStatus = run_status.WorkerStatus


def make_rates(config):
  spec = factory.make_spec(config.environment)
  return rates_lib.Rates.from_config(config, spec)


def make_state(
  resumed=None, config=None, rates=None, started_at_s=0.0, **expected
):
  config = config or apex_dqn.get_config()
  return run_state.RunState(
    config,
    rates or make_rates(config),
    "a-run",
    {**given.EXPECTED, **expected},
    started_at_s,
    resumed,
  )


def value_of(status, path):
  """Returns a field of a status, by a path such as 'replay.size'."""
  for name in path.split("."):
    status = getattr(status, name)
  return status


def report_all(state, reports):
  for role, index, report in reports:
    state.report(role, index, report)


@pytest.fixture
def clock(monkeypatch):
  return given.set_clock(monkeypatch, run_state, node_states)


# reports of two machines' proxies, and of their workers
PROXIES = [
  ("proxy", 0, Proxy(
    counts=run_status.NodeCounts(connections_refused=6, bytes_up=40),
    connections=3, variables_version=9, variables_age_s=0.2,
    workers={0: messages.StreamCounts(1, 30, 3),
             1: messages.StreamCounts(2, 10, 1)})),
  ("proxy", 1, Proxy(
    counts=run_status.NodeCounts(bytes_up=2), connections=1,
    variables_version=8, variables_age_s=0.5,
    workers={2: messages.StreamCounts(1, 2, 1)})),
  ("worker", 2, Worker(env_steps=6, items_lost=1, reconnects=2)),
  ("worker", 0, Worker(env_steps=5)),
]  # fmt: skip

# reports, field of the status, expected value
STATUSES = [
  ([], "env_steps", 0),
  ([], "trainer_steps", 0),
  ([], "start_up_s", None),
  ([], "evaluation.mean_return", None),
  ([], "training_return", None),
  ([], "waiting", None),
  (given.workers(env_steps=[10, 20]), "env_steps", 30),
  (given.workers(env_steps=[10, 20]) + given.workers(env_steps=[11]),
   "env_steps", 31),
  (given.workers(training_return=[3.0, None, 5.0]), "training_return", 4.0),
  (given.workers(variables_age_s=[None, None]), "variables.mean_age_s", None),
  ([("trainer", 0, Trainer(trainer_steps=7))], "trainer_steps", 7),
  ([("trainer", 0, Trainer(first_step_at_s=12.5))], "start_up_s", 12.5),
  ([("trainer", 0, Trainer(metrics={"loss": 2.0}))], "learner", {"loss": 2.0}),
  # The trainer reports the table if it hosts replay; else the replay node does.
  ([("trainer", 0, Trainer(replay=Table(size=5)))], "replay.size", 5),
  ([("replay", 0, Replay(replay=Table(6, 6, 9)))], "replay.size", 6),
  ([("replay", 0, Replay(replay=Table(6, 6, 9)))], "replay.sampled", 9),
  (given.workers(items_written=[5, 2]), "items_written", 7),
  (given.workers(items_confirmed=[4, 2]), "items_confirmed", 6),
  (given.workers(items_lost=[1, 2]), "items_lost", 3),
  (given.workers(reconnects=[2, 2]), "reconnects", 4),
  ([], "proxy", run_status.ProxyStatus()),
  (PROXIES, "bytes_up", 42),
  (PROXIES, "connections_refused", 6),
  (PROXIES, "proxy", run_status.ProxyStatus(4, 8, 0.5)),
  ([], "workers", {}),
  (PROXIES, "workers",
   {0: WorkerStatus(env_steps=5, streams=1, bytes_up=30, bytes_down=3),
    1: WorkerStatus(streams=2, bytes_up=10, bytes_down=1),
    2: WorkerStatus(env_steps=6, items_lost=1, reconnects=2,
                    streams=1, bytes_up=2, bytes_down=1)}),
  (given.workers(env_steps=[1, 1]), "nodes",
   # Roles without nodes, such as the evaluator here, are omitted.
   {"replay": run_status.NodesStatus(0, 1),
    "trainer": run_status.NodesStatus(0, 1),
    "worker": run_status.NodesStatus(2, 3),
    "proxy": run_status.NodesStatus(0, 2)}),
]  # fmt: skip


@pytest.mark.parametrize(("reports", "field", "value"), STATUSES)
def test_status(reports, field, value):
  state = make_state(evaluator=0, replay=1, proxy=2)
  report_all(state, reports)
  assert value_of(state.status(), field) == value


def test_shards_are_added_up():
  config = apex_dqn.get_config()
  config.replay.update(
    shards=2, capacity=1_000, min_size=200, transitions_per_item=1
  )
  state = make_state(config=config, replay=2)
  assert state.status().replay.shards == {}
  # The second table is below its minimum of 100 items.
  tables = [Table(400, 700, 2_400), Table(60, 60, 0)]
  for index, table in enumerate(tables):
    state.report("replay", index, Replay(1.0, replay=table))
  replay = state.status().replay
  assert replay.capacity == 1_000
  assert replay.size == 460
  assert (replay.inserted, replay.sampled) == (760, 2_400)
  assert replay.samples_per_insert == 2_400 / 600
  assert replay.shards == {0: tables[0], 1: tables[1]}

  # Before a shard's first report, its counts are those of the snapshot.
  resumed = make_state(state.counters(), config=config, replay=2)
  assert resumed.status().replay.shards == {0: tables[0], 1: tables[1]}
  resumed.report("replay", 1, Replay(3.0, replay=Table(70, 70, 0)))
  assert resumed.status().replay.shards[1].size == 70


def test_targets_are_in_the_status():
  status = make_state().status()
  config = apex_dqn.get_config()
  assert status.replay.capacity == config.replay.capacity // 4, "in items"
  assert (
    status.replay.samples_per_insert_target == config.replay.samples_per_insert
  )
  assert not status.replay.is_queue
  assert status.limits.target_return == config.limits.target_return
  assert status.limits.wall_clock_s == config.limits.wall_clock_s
  assert status.name == "a-run"


def test_targets_of_a_queue_are_in_the_status():
  config = ppo.get_config()
  replay = make_state(config=config).status().replay
  assert replay.capacity == 16  # 4 batches of 8 - 8 - 8
  assert replay.samples_per_insert_target == 1.0
  assert replay.is_queue


def test_a_restarted_node_continues_its_counts():
  state = make_state()

  def report(incarnation, steps, written, confirmed, lost):
    state.report(
      "worker",
      1,
      Worker(
        env_steps=steps,
        items_written=written,
        items_confirmed=confirmed,
        items_lost=lost,
        incarnation=incarnation,
        training_return=10.0 * incarnation,
      ),
    )

  def counts():
    status = state.status()
    items = (status.items_written, status.items_confirmed, status.items_lost)
    return [status.env_steps, *items]

  report(1.0, 100, 90, 80, 4)
  report(1.0, 110, 99, 88, 4)
  assert counts() == [110, 99, 88, 4]
  assert state.status().node_restarts == {}
  # 99 written - 88 confirmed - 4 lost = 7 items were in flight at the kill.
  report(2.0, 5, 3, 1, 0)
  assert counts() == [115, 102, 89, 11]
  assert state.status().training_return == 20.0
  report(2.0, 8, 4, 4, 0)
  report(3.0, 1, 1, 1, 0)
  assert counts() == [119, 104, 93, 11]
  assert state.status().node_restarts == {"worker/1": 2}
  assert state.status().restarts == 2


def test_items_that_a_stopping_worker_discards_are_not_lost():
  state = make_state()
  report = Worker(items_written=9, items_confirmed=7, items_discarded=2)
  state.report("worker", 0, report, finished=True)
  for _ in range(2):
    status = state.status()
    assert (status.items_written, status.items_lost) == (9, 0)
    assert status.items_discarded == 2
    # The same holds after a resume.
    state = make_state(state.counters())


def test_rates_of_the_status(clock):
  state = make_state()
  for steps in (0, 30):
    clock.now_s += 2.0
    report_all(
      state,
      [
        *given.workers(
          env_steps=[steps, 2 * steps],
          items_confirmed=[steps // 2, steps],
          variable_loads=[steps // 6, steps // 3],
        ),
        ("trainer", 0, Trainer(trainer_steps=steps // 3)),
        ("proxy", 0, Proxy(counts=run_status.NodeCounts(bytes_up=8 * steps))),
      ],
    )
    state.update()
  status = state.status()
  assert status.rates.env_steps_per_s == 45.0
  assert status.rates.trainer_steps_per_s == 5.0
  assert status.rates.items_per_s == 22.5
  assert status.rates.bytes_up_per_s == 120.0
  assert status.variables.loads_per_trainer_step == 1.5 / 3


# samples (seconds, steps) in the order of time, rate after the last sample
RATES = [
  ([(0.0, 100)], 0.0),
  ([(0.0, 0), (0.0, 50)], 0.0),
  ([(0.0, 0), (4.0, 0), (5.0, 10)], 2.0),
  # Samples that are older than 5 s are dropped.
  ([(0.0, 0), (10.0, 1000), (12.0, 1030)], 15.0),
  # A trainer that was resumed has fewer steps.
  ([(0.0, 900), (1.0, 1000), (2.0, 30), (4.0, 50)], 10.0),
]


@pytest.mark.parametrize(("samples", "rate"), RATES)
def test_a_rate_is_that_of_the_last_5_s(clock, samples, rate):
  state = make_state()
  for clock.now_s, steps in samples:
    state.report("trainer", 0, Trainer(trainer_steps=steps))
    state.update()
  assert state.status().rates.trainer_steps_per_s == pytest.approx(rate)


# environment steps, trainer steps and seconds after the first update; rates
# since then: environment steps/s, trainer steps/s, their ratio
LEARNED = [
  ((0, 0, 0.0), (None, None, None)),
  ((1000, 100, 10.0), (100.0, 10.0, 0.1)),
  # No environment steps are made, since workers wait for the trainer.
  ((0, 100, 10.0), (0.0, 10.0, None)),
]


@pytest.mark.parametrize(("after", "expected"), LEARNED)
def test_mean_rates_begin_with_the_first_update(clock, after, expected):
  state = make_state()
  assert state.status().rates == run_status.RatesStatus()
  env_steps, trainer_steps, passed_s = after
  for share in (0, 1):
    clock.now_s += share * passed_s
    state.report("worker", 0, Worker(env_steps=500 + share * env_steps))
    updates = 1 + share * trainer_steps
    report = Trainer(trainer_steps=updates, first_step_at_s=5.0)
    state.report("trainer", 0, report)
  rates = state.status().rates
  assert (
    rates.mean_env_steps_per_s,
    rates.mean_trainer_steps_per_s,
    rates.trainer_steps_per_env_step,
  ) == expected


def test_a_run_without_a_proxy():
  assert make_state(proxy=0).status().proxy is None


def test_a_worker_that_is_removed_keeps_its_counts():
  state = make_state()
  report_all(state, given.workers(incarnation=[1.0] * 3, env_steps=[1, 2, 4]))
  state.report(
    "worker",
    2,
    Worker(1.0, env_steps=5),
    finished=True,
  )
  state.nodes.set_expected("worker", 2)
  status = state.status()
  assert status.env_steps == 8
  assert status.nodes["worker"] == run_status.NodesStatus(2, 2)
  # The worker is added again, and its next process reports.
  state.nodes.set_expected("worker", 3)
  state.report("worker", 2, Worker(2.0, env_steps=1))
  assert state.status().nodes["worker"] == run_status.NodesStatus(3, 3)
  assert state.status().env_steps == 9


def make_state_with_counts():
  state = make_state()
  report_all(
    state,
    given.workers(
      incarnation=[1.0] * 2, env_steps=[10, 20], items_written=[9, 18]
    ),
  )
  state.report("worker", 0, Worker(2.0, env_steps=5))
  state.report(
    "trainer",
    0,
    Trainer(trainer_steps=7, variables_version=3, replay=Table(size=25)),
  )
  state.evaluations.add(curves.Evaluation(eval_return=8.0), [8.0])
  state.evaluations.add(curves.Evaluation(eval_return=6.0))
  return state


@pytest.mark.parametrize("step_s", [-7_200.0, 7_200.0])
def test_a_step_of_the_system_clock_does_not_change_the_duration(clock, step_s):
  state = make_state(started_at_s=clock.time() - 3.0)
  clock.now_s += 10.0
  clock.time = lambda: 1.6e9 + step_s + clock.now_s
  assert state.status().wall_s == 13.0
  assert state.counters().status.wall_s == 13.0


def test_a_resumed_run_continues_its_counts(clock):
  clock.now_s = 100.0
  state = make_state_with_counts()
  before = state.status()
  saved = msgspec.json.decode(
    records.to_json(state.counters()), type=run_counters.RunCounters
  )

  resumed = make_state(saved)
  status = resumed.status()
  for field in (
    *("env_steps", "trainer_steps", "items_written", "replay.size"),
    *("evaluation", "restarts"),
  ):
    assert value_of(status, field) == value_of(before, field)
  assert status.wall_s == before.wall_s + 1.6e9 + clock.now_s
  assert status.nodes["worker"] == run_status.NodesStatus(0, 3)
  assert (before.resumes, status.resumes) == (0, 1)
  assert resumed.variables_version() == 3
  assert resumed.nodes.registration("worker", 0) == messages.Registration(2, 15)
  # A joining worker starts with the mean of the other workers' steps.
  assert resumed.nodes.registration("worker", 2) == messages.Registration(0, 17)
  resumed.report("worker", 0, Worker(3.0, env_steps=100))
  assert resumed.status().env_steps == 135
  assert resumed.status().restarts == before.restarts, "a resume is no restart"
  assert resumed.nodes.registration("worker", 0) == messages.Registration(
    3, 115
  )
  evaluation = curves.Evaluation(eval_return=9.0)
  assert not resumed.evaluations.add(evaluation, [7.0])
  assert resumed.status().evaluation.count == 3


def test_a_process_that_outlives_a_resume_is_counted_once():
  state = make_state()
  state.report("external", 0, Worker(1.0, env_steps=5))
  state.report(
    "external",
    0,
    Worker(2.0, env_steps=3, items_written=3),
  )
  # The trainer dies later, and the run continues from this snapshot.
  resumed = make_state(state.counters())
  resumed.report(
    "external",
    0,
    Worker(2.0, env_steps=9, items_written=9),
  )
  assert resumed.status().env_steps == 14
  assert resumed.status().items_written == 9
  resumed.report("external", 0, Worker(3.0, env_steps=1))
  assert resumed.status().env_steps == 15
  assert resumed.status().items_lost == 9


def test_learning_begins_with_the_first_update_after_the_command(clock):
  state = make_state()
  report_all(state, given.workers(env_steps=[10, 20]))
  state.report("trainer", 0, Trainer(trainer_steps=60))
  assert state.status().learning_since is None
  state.report("trainer", 0, Trainer(trainer_steps=61, first_step_at_s=5.0))
  since = run_status.Milestone(1.6e9 + 8.0, 30, 61)
  assert state.status().learning_since == since
  # A restarted trainer changes nothing.
  clock.now_s += 9.0
  state.report("trainer", 0, Trainer(trainer_steps=50, first_step_at_s=12.0))
  assert state.status().learning_since == since
  assert state.status().start_up_s == 5.0


def test_external_processes_join_and_leave(clock):
  state = make_state()
  report_all(state, given.workers(env_steps=[10, 20, 30]))
  report_all(state, [("trainer", 0, Trainer()), ("proxy", 0, Proxy())])
  up = {"worker": (3, 3), "trainer": (1, 1), "proxy": (1, 1)}
  assert nodes_of(state) == up
  # The first process explores as much as the workers do now.
  assert state.nodes.registration("external", 0) == messages.Registration(0, 20)
  first = Worker(
    1.0,
    env_steps=5,
    items_written=5,
    items_confirmed=3,
  )
  state.report("external", 0, first)
  status = state.status()
  assert nodes_of(state) == {**up, "external": (1, 1)}
  assert status.env_steps == 65
  # The process is killed. No node waits for it, and it is not listed as silent.
  clock.now_s += 6.0
  report_all(state, given.workers(env_steps=[10, 20, 30]))
  report_all(state, [("trainer", 0, Trainer()), ("proxy", 0, Proxy())])
  assert nodes_of(state) == up
  assert not state.nodes.find_silent_nodes()
  # Another process continues the counts.
  assert state.nodes.registration("external", 0) == messages.Registration(1, 5)
  state.report("external", 0, Worker(2.0, env_steps=1))
  status = state.status()
  assert (status.env_steps, status.items_lost) == (66, 2)
  assert (status.restarts, status.node_restarts) == (0, {})
  assert status.externals[0].items_confirmed == 3
  state.report(
    "external",
    0,
    Worker(2.0, env_steps=2),
    finished=True,
  )
  assert nodes_of(state) == up
  assert state.status().env_steps == 67


def test_a_run_without_workers_shows_that_it_needs_external_processes():
  state = make_state(worker=0)
  assert nodes_of(state)["external"] == (0, 0)
  assert state.nodes.collected_version() == 0
  state.report(
    "external",
    0,
    Worker(1.0, env_steps=5, training_return=2.0),
  )
  assert nodes_of(state)["external"] == (1, 1)
  assert state.status().training_return == 2.0


def nodes_of(state):
  """Returns the numbers of running and expected nodes, by role."""
  return {
    role: (nodes.up, nodes.expected)
    for role, nodes in state.status().nodes.items()
  }
