"""Tests of the run's control: limits, commands, the stop order and results."""

import csv
import json
import sys
import time
import types
from concurrent import futures

import pytest

from slipway.configs import dqn
from slipway.environments import factory
from slipway.launch.control import messages, run_control, run_state, waits
from slipway.launch.control import rates as rates_lib
from slipway.launch.runs import run_folder, run_status
from slipway.replay.tables import table_status
from tests import polling
from tests.launch.control import given

EXPECTED = {"worker": 2, "evaluator": 1, "proxy": 1, "trainer": 1, "replay": 1}
REPORTS = {
  "worker": messages.WorkerReport,
  "trainer": messages.TrainerReport,
  "proxy": messages.ProxyReport,
  "evaluator": messages.EvaluatorReport,
  "replay": messages.ReplayReport,
}
Worker, Trainer = given.make_worker_report, messages.TrainerReport
NODES = [(role, i) for role, count in EXPECTED.items() for i in range(count)]


def make_rates(config):
  spec = factory.make_spec(config.environment)
  return rates_lib.Rates.from_config(config, spec)


@pytest.fixture
def make_control(tmp_path, monkeypatch):
  """Returns a function that makes a control with a simulated clock.

  A test sets the clock by `control.clock.now_s`.
  """
  clock = types.SimpleNamespace(now_s=100.0)
  clock.monotonic = lambda: clock.now_s
  monkeypatch.setattr(run_control, "time", clock)

  def make(
    expected=EXPECTED,
    age_s=0.0,
    steps_per_s=0.0,
    period_s=30.0,
    fixed="",
    rates=None,
    hooks=(),
    environment=types.MappingProxyType({}),
    **limits,
  ):
    config = dqn.get_config()
    config.environment.update(environment)
    config.hooks = hooks
    config.watchdog.period_s = period_s
    config.rates.environment_steps_per_s = steps_per_s
    config.limits.update(limits)
    folder = run_folder.RunFolder(tmp_path / "a-run")
    if not folder.is_run():
      folder = run_folder.RunFolder.create(tmp_path, "a-run", overwrite=False)
    folder.write_config(config)
    control = run_control.RunControl(
      config,
      folder,
      expected,
      time.time() - age_s,
      rates or make_rates(config),
      fixed,
    )
    control.clock, control.folder = clock, folder
    return control

  return make


def command(control, role, index=0):
  """Returns the command for a node, without a report of the node."""
  return control.command(role, index)


def evaluate(control, *values):
  """Sends evaluations, and returns whether the last one is the best.

  The repetition of each evaluation has the same returns.
  """
  for value in values:
    returns = [value - 1, value + 1]
    reply = control.evaluated(
      messages.Evaluation(returns, [10, 30], 3, returns)
    )
  return reply.is_best


def evaluate_info(control, *values):
  """Sends evaluations with means `success` of their infos, unless None."""
  for value in values:
    info = {} if value is None else {"success": value}
    control.evaluated(messages.Evaluation([0.0], [10], 3, info=info))


# limits, function that sends reports, reason of the stop (None: no stop)
LIMITS = [
  ({}, lambda c: c.report("worker", 0, Worker(env_steps=10**9)), None),
  ({}, lambda c: c.report("trainer", 0, Trainer(trainer_steps=10**9)), None),
  ({}, lambda c: evaluate(c, 475.0, 475.0), None),
  ({}, lambda c: evaluate(c, 475.0, 475.0, 474.9, 475.0, 475.0), None),
  ({}, lambda c: evaluate(c, 9.0, 475.0, 480.0, 475.0), "target_return"),
  ({"target_evaluations": 1}, lambda c: evaluate(c, 475.0), "target_return"),
  (
    {"target_return": float("inf")},
    lambda c: evaluate(c, 1e9, 1e9, 1e9),
    None,
  ),
  ({"target_return": -5.0}, lambda c: None, None),
  ({}, lambda c: evaluate_info(c, 1.0, 1.0, 1.0), None),
  (
    {"target_info": "success:0.9"},
    lambda c: evaluate_info(c, 1.0, 0.9, 0.8, 0.9, 0.9, None, 0.9, 0.9),
    None,
  ),
  (
    {"target_info": "success:0.9"},
    lambda c: evaluate_info(c, 0.8, 1.0, sum([0.1] * 9), 0.9),
    "target_info",
  ),
  (
    {"target_info": "other:0.9", "target_evaluations": 1},
    lambda c: evaluate_info(c, 1.0),
    None,
  ),
  (
    {"target_return": -5.0},
    lambda c: evaluate(c, -4.0, -4.0, -4.0),
    "target_return",
  ),
  (
    {"environment_steps": 30},
    lambda c: [c.report("worker", i, Worker(env_steps=14)) for i in range(2)],
    None,
  ),
  (
    {"environment_steps": 30},
    lambda c: [c.report("worker", i, Worker(env_steps=15)) for i in range(2)],
    "environment_steps",
  ),
  (
    {"trainer_steps": 7},
    lambda c: c.report("trainer", 0, Trainer(trainer_steps=6)),
    None,
  ),
  (
    {"trainer_steps": 7},
    lambda c: c.report("trainer", 0, Trainer(trainer_steps=8)),
    "trainer_steps",
  ),
  ({"wall_clock_s": 1_000.0}, lambda c: None, None),
  ({"wall_clock_s": 49.0}, lambda c: None, "wall_clock_s"),
  (
    {"episodes": 5},
    lambda c: [c.report("worker", i, Worker(episodes=2)) for i in range(2)],
    None,
  ),
  (
    {"episodes": 4},
    lambda c: [c.report("worker", i, Worker(episodes=2)) for i in range(2)],
    "episodes",
  ),
  # The first evaluation and a higher one are improvements, an equal one is not.
  (
    {"evaluations_without_improvement": 2},
    lambda c: [evaluate(c, value) for value in (3.0, 2.0, 4.0, 4.0)],
    None,
  ),
  (
    {"evaluations_without_improvement": 2},
    lambda c: [evaluate(c, value) for value in (3.0, 2.0, 4.0, 4.0, 1.0)],
    "evaluations_without_improvement",
  ),
  # All limits must be reached; the config's target return is 475.
  (
    {"combine": "all", "trainer_steps": 7},
    lambda c: c.report("trainer", 0, Trainer(trainer_steps=8)),
    None,
  ),
  (
    {"combine": "all", "trainer_steps": 7},
    lambda c: [
      c.report("trainer", 0, Trainer(trainer_steps=8)),
      evaluate(c, 480.0, 480.0, 480.0),
    ],
    "all_limits",
  ),
  # All limits must be reached at the same time, so the last evaluation counts.
  (
    {"combine": "all", "trainer_steps": 7},
    lambda c: [
      evaluate(c, 480.0, 480.0, 480.0, 470.0),
      c.report("trainer", 0, Trainer(trainer_steps=8)),
    ],
    None,
  ),
  (
    {"combine": "all"},
    lambda c: evaluate(c, 480.0, 480.0, 480.0),
    "target_return",
  ),
]


@pytest.mark.parametrize(("limits", "send_reports", "reason"), LIMITS)
def test_limits(make_control, limits, send_reports, reason):
  control = make_control(age_s=50.0, **limits)
  send_reports(control)
  control.tick()
  assert control.status().stopped_because == reason
  assert control.stopping == (reason is not None)
  assert command(control, "external").stop == control.stopping


def test_a_trainer_stops_at_its_limit_unless_limits_are_combined(make_control):
  control = make_control(trainer_steps=7)
  for combine, last in (("all", 0), ("any", 7)):
    control.set("limits.combine", combine)
    assert command(control, "trainer").trainer_steps_limit == last
  control.set("limits.target_return", "inf")
  control.set("limits.combine", "all")  # the only limit
  assert command(control, "trainer").trainer_steps_limit == 7


def test_the_first_reason_is_kept(make_control):
  control = make_control()
  control.stop("SIGTERM")
  evaluate(control, 500.0)
  control.tick()
  assert control.status().stopped_because == "SIGTERM"


def test_a_run_that_reached_a_limit_has_time_for_its_last_snapshot(
  make_control,
):
  control = make_control(environment_steps=10)
  control.report("worker", 0, Worker(env_steps=10))
  control.tick()
  snapshots = run_status.SnapshotsStatus(finishing_s=0.0)
  control.report("trainer", 0, Trainer(snapshots=snapshots))
  assert control.status().snapshots.finishing_s is not None
  assert not control.stops_quickly
  assert command(control, "trainer").last_snapshot_s > 300.0
  assert control.status().stopped_because == "environment_steps"


@pytest.mark.parametrize("reason", ["SIGTERM", "failure"])
def test_a_signal_leaves_seconds_for_the_last_snapshot(make_control, reason):
  control = make_control()
  control.stop("stopped by a command")
  assert not control.stops_quickly
  control.stop(reason)
  assert control.stops_quickly
  assert command(control, "trainer").last_snapshot_s < 10.0
  assert control.status().stopped_because == "stopped by a command"


def test_phases(make_control):
  control = make_control()
  assert control.status().phase == "starting"
  # A resumed trainer has steps before its first update.
  control.report("trainer", 0, Trainer(trainer_steps=9, first_step_at_s=None))
  assert control.status().phase == "starting"
  control.report("trainer", 0, Trainer(first_step_at_s=time.time()))
  assert control.status().phase == "running"
  control.pause()
  assert control.status().phase == "paused"
  control.resume()
  assert control.status().phase == "running"
  control.pause()
  control.stop("SIGINT")
  assert control.status().phase == "stopping"
  control.close()
  assert control.status().phase == "stopped"


def test_a_long_run_writes_metrics_less_often(make_control):
  control = make_control(age_s=100 * 3_600.0)

  def tick(times):
    for _ in range(times):
      control.clock.now_s += 1.0
      control.tick()
    (events,) = control.folder.events.iterdir()
    return events.stat().st_size

  size = tick(1)
  assert tick(50) == size
  control.close()  # the last metrics are always written
  assert tick(0) > size


def test_a_pause_reaches_every_node(make_control):
  control = make_control()
  assert not any(command(control, *node).paused for node in NODES)
  for calls in (1, 2):  # A repeated call changes nothing.
    for _ in range(calls):
      control.pause()
    assert all(command(control, *node).paused for node in NODES)
    assert control.status().phase == "paused"
    for _ in range(calls):
      control.resume()
    assert not any(command(control, *node).paused for node in NODES)
    assert control.status().phase == "starting"


def test_a_paused_run_shows_no_other_wait(make_control):
  control = make_control()
  control.report(
    "trainer", 0, Trainer(wait=waits.Wait(waits.TRANSITIONS, 60.0))
  )
  assert "transitions" in control.status().waiting
  control.pause()
  assert control.status().waiting == "paused"
  control.resume()
  assert "transitions" in control.status().waiting


def test_a_paused_run_has_no_speed(make_control, monkeypatch):
  control = make_control()
  steps = iter(range(0, 10_000, 100))

  def second():
    control.clock.now_s += 1.0
    control.report("worker", 0, Worker(env_steps=next(steps)))
    control.tick()
    return control.status().rates.env_steps_per_s

  control.clock.time = time.time
  monkeypatch.setattr(run_state, "time", control.clock)
  assert [second() for _ in range(3)] == [0.0, 100.0, 100.0]
  control.pause()
  assert control.status().rates.env_steps_per_s == 0.0
  control.clock.now_s += 60.0
  control.tick()
  control.resume()
  # Steps before the pause do not count.
  assert [second() for _ in range(2)] == [0.0, 100.0]


def test_a_paused_run_that_stops_continues(make_control):
  control = make_control()
  control.pause()
  control.stop("SIGINT")
  assert not command(control, "trainer").paused
  assert control.status().phase == "stopping"


def test_a_pause_suspends_no_limit(make_control):
  control = make_control(age_s=50.0, wall_clock_s=49.0)
  control.pause()
  control.tick()
  assert control.status().stopped_because == "wall_clock_s"


def test_the_rate_is_divided_among_the_workers(make_control):
  control = make_control(steps_per_s=600.0)

  def shares():
    return {role: command(control, role, i).steps_per_s for role, i in NODES}

  none = dict.fromkeys(EXPECTED, 0.0)
  assert shares() == {**none, "proxy": 600.0, "worker": 300.0}
  assert control.status().rates.env_steps_per_s_target == 600.0
  # The rate can change during the run.
  control.set("rates.environment_steps_per_s", 50)
  assert shares() == {**none, "proxy": 50.0, "worker": 25.0}
  with pytest.raises(ValueError, match=r"-1\.0"):
    control.set("rates.environment_steps_per_s", -1)
  assert control.status().rates.env_steps_per_s_target == 50.0
  control.set("rates.environment_steps_per_s", "0")
  assert shares() == none


def test_a_limit_that_changes(make_control):
  control = make_control(environment_steps=30)
  control.set("limits.environment_steps", "1_000")
  control.report("worker", 0, Worker(env_steps=999))
  control.tick()
  assert control.status().phase == "starting"
  assert control.status().limits.environment_steps == 1_000
  evaluate(control, -20.0, -20.0)
  control.set("limits.target_return", "-20")
  control.tick()
  assert control.status().stopped_because is None
  control.set("limits.target_evaluations", 2)
  control.tick()
  assert control.status().stopped_because == "target_return"


def test_a_stopping_run_rejects_commands(make_control):
  control = make_control()
  control.stop("SIGTERM")
  for send_command in (
    control.pause,
    control.resume,
    lambda: control.set("limits.trainer_steps", 9),
  ):
    with pytest.raises(ValueError, match=r"the run is stopping \(SIGTERM\)"):
      send_command()
  assert not command(control, "trainer").paused
  assert control.status().limits.trainer_steps == 0


def test_the_callers_config_is_not_changed(make_control, tmp_path):
  config = dqn.get_config()
  before = config.to_json()
  folder = run_folder.RunFolder.create(tmp_path, "other", overwrite=False)
  control = run_control.RunControl(
    config, folder, EXPECTED, time.time(), make_rates(config)
  )
  control.set("limits.trainer_steps", 9)
  assert config.to_json() == before


def test_a_stall_is_explained(make_control, caplog):
  expected = {"worker": 1, "trainer": 1}
  control = make_control(expected, period_s=30.0)
  table = table_status.TableStatus(900, 900, 0)
  control.report("worker", 0, Worker(env_steps=900))
  control.report("trainer", 0, Trainer(replay=table))

  def wait(seconds):
    control.clock.now_s += seconds
    control.tick()
    return control.status()

  assert wait(0.0).stalled_s is None
  assert wait(29.0).stalled_s is None
  assert wait(2.0).stalled_s == 31.0
  words = "no node waits, so one hangs: its log may say where; 900 inserted"
  assert words in control.status().waiting
  assert wait(9.0).stalled_s == 40.0
  # Each stall is logged once.
  assert [words in text for text in caplog.messages] == [True]
  # A pause is no stall.
  control.pause()
  assert wait(99.0).waiting == "paused"
  control.resume()
  assert wait(29.0).stalled_s is None
  assert wait(2.0).stalled_s == 31.0
  assert len(caplog.messages) == 2
  # Progress ends the stall.
  control.report("worker", 0, Worker(env_steps=901))
  assert wait(0.0).stalled_s is None
  assert control.status().waiting is None
  # A stopping run has no stall.
  control.stop("SIGTERM")
  assert wait(99.0).stalled_s is None


def test_only_external_processes_are_told_to_stop(make_control):
  control = make_control()
  roles = ("worker", "proxy", "trainer", "replay", "evaluator", "external")
  for told in ([], ["external"]):
    assert [x for x in roles if command(control, x).stop] == told
    control.stop("SIGTERM")


def test_results(make_control):
  control = make_control(age_s=50.0)
  control.report("worker", 1, Worker(env_steps=40, items_confirmed=30))
  control.report("trainer", 0, Trainer(trainer_steps=5, first_step_at_s=1.0))
  evaluate(control, 21.0)
  control.tick()
  control.stop("SIGTERM")
  # A node's final report counts, too.
  control.finished("worker", 1, Worker(env_steps=44, items_confirmed=43))
  control.close()
  summary = json.loads(control.folder.summary.read_text())
  assert summary["evaluation"]["mean_return"] == 21.0
  assert summary["evaluation"]["episodes"] == 2
  assert summary["env_steps"] == 44
  assert summary["trainer_steps"] == 5
  assert summary["items_confirmed"] == 43
  assert summary["items_lost"] == summary["reconnects"] == 0
  assert summary["stopped_because"] == "SIGTERM"
  assert summary["wall_s"] >= 50.0
  with open(control.folder.curves_csv, newline="") as file:
    (row,) = csv.DictReader(file)
  assert (row["env_steps"], row["eval_return"]) == ("40", "21")
  assert row["variables_version"] == "3"
  assert control.folder.curves_png.stat().st_size > 0
  assert len(list(control.folder.events.iterdir())) == 1


@pytest.mark.parametrize("cause", ["config", "picture"])
def test_a_run_ends_without_its_picture(
  make_control, tmp_path, monkeypatch, caplog, cause
):
  (tmp_path / "end_hook.py").write_text(
    "names = []\ndef notify(event):\n  names.append(event.name)\n"
  )
  monkeypatch.syspath_prepend(tmp_path)
  control = make_control(hooks=("end_hook:notify",))
  if cause == "config":
    control.folder.config.write_text("{")
  else:
    control.folder.curves_png.mkdir()
  control.stop("SIGTERM")
  control.close()
  assert sys.modules.pop("end_hook").names == ["start", "end"]
  assert "curves.png can't be drawn" in caplog.text


def snapshot(number):
  return Trainer(snapshots=run_status.SnapshotsStatus(written=number))


def test_hooks_are_called_with_the_status(make_control, tmp_path, monkeypatch):
  """The hooks receive each event once."""
  (tmp_path / "control_hooks.py").write_text(
    "calls = []\n"
    "def notify(event):\n"
    "  status = event.status\n"
    "  calls.append((event.name, status.evaluation.count,\n"
    "                status.snapshots.written, status.phase))\n"
  )
  monkeypatch.syspath_prepend(tmp_path)
  control = make_control(hooks=("control_hooks:notify",))
  evaluate(control, 3.0)
  for number in (0, 1, 1):
    control.report("trainer", 0, snapshot(number))
    control.tick()
  evaluate(control, 4.0)
  control.stop("SIGTERM")
  control.finished("trainer", 0, snapshot(2))
  control.close()
  polling.wait_until(lambda: len(sys.modules["control_hooks"].calls) == 6)
  assert sys.modules.pop("control_hooks").calls == [
    ("start", 0, 0, "starting"),
    ("evaluation", 1, 0, "starting"),
    ("snapshot", 1, 1, "starting"),
    ("evaluation", 2, 1, "starting"),
    ("snapshot", 2, 2, "stopped"),
    ("end", 2, 2, "stopped"),
  ]


def test_a_hook_that_fails_is_in_the_status(make_control):
  control = make_control(hooks=("no_such:hook",))
  polling.wait_until(lambda: control.status().failed_hooks)
  (failed,) = control.status().failed_hooks.items()
  assert failed[0] == "no_such:hook"
  assert "can't be imported" in failed[1]
  control.close()


def test_a_snapshot_is_requested_from_the_trainer(make_control):
  control = make_control()
  assert command(control, "trainer").saves_requested == 0
  control.save()
  control.save()
  assert command(control, "trainer").saves_requested == 2
  control.stop("SIGINT")
  with pytest.raises(ValueError, match="stopping"):
    control.save()
  assert command(control, "trainer").saves_requested == 2


def test_the_number_of_workers_changes(make_control):
  control = make_control(steps_per_s=90.0)
  control.report("worker", 0, Worker())
  control.report("worker", 1, Worker(env_steps=5))
  control.set_workers(1)
  assert command(control, "worker").steps_per_s == 90.0
  status = control.status()
  assert status.workers_target == 1
  assert status.nodes["worker"] == run_status.NodesStatus(1, 1)
  assert status.env_steps == 5
  control.set_workers(3)
  assert command(control, "worker").steps_per_s == 30.0
  for count in (0, 257):
    with pytest.raises(ValueError, match=f"topology.workers={count}"):
      control.set_workers(count)
  assert control.status().workers_target == 3
  control.stop("SIGINT")
  with pytest.raises(ValueError, match="stopping"):
    control.set_workers(2)
  assert control.status().workers_target == 3


def test_the_machines_of_a_run(make_control, tmp_path):
  control = make_control(
    {"worker": 2, "proxy": 1, "trainer": 1}, steps_per_s=120.0
  )
  machines = {
    "home": run_status.MachineStatus("a", True),
    "workers/1": run_status.MachineStatus("b", False, 3),
  }
  expected = {"worker": 6, "proxy": 3, "trainer": 1}
  absent = [("proxy", 1), ("worker", 2), ("worker", 3)]
  control.place(machines, expected, absent)
  status = control.status()
  assert status.machines == machines
  assert status.nodes["worker"] == run_status.NodesStatus(0, 6)
  # Proxies that have a machine share the rate by their number of workers.
  for index, live_workers in enumerate((1, 2, 3)):
    report = messages.ProxyReport(live_workers=live_workers)
    control.report("proxy", index, report)
  assert command(control, "proxy", 0).steps_per_s == 30.0
  assert command(control, "proxy", 2).steps_per_s == 90.0
  assert command(control, "worker", 5).workers == 6
  assert not command(control, "worker", 5).stop
  with pytest.raises(ValueError, match="its machines"):
    control.set_workers(3)
  control.stop("a test")
  control.place({}, {"worker": 9, "proxy": 9}, [])
  assert control.status().nodes["worker"] == run_status.NodesStatus(0, 6)


def test_a_fixed_number_of_workers_can_not_change(make_control):
  control = make_control(fixed="a reason")
  with pytest.raises(ValueError, match="a reason"):
    control.set_workers(3)
  assert control.status().workers_target == 2


def test_each_shard_keeps_a_worker(make_control):
  config = dqn.get_config()
  config.replay.shards = 2
  control = make_control(rates=make_rates(config))
  with pytest.raises(ValueError, match=r"workers 1 is below .*shards=2"):
    control.set_workers(1)
  assert control.status().workers_target == 2
  control.set_workers(3)
  assert control.status().workers_target == 3


def test_a_run_that_can_have_no_workers_gets_none(
  make_control, without_workers
):
  expected = {"trainer": 1, "proxy": 1}
  external = make_control(expected, environment={"external": True})
  for control, reason in (
    (external, "environment.external=True"),
    (without_workers(), "recorded data only"),
  ):
    with pytest.raises(ValueError, match=reason):
      control.set_workers(4)
    assert control.status().workers_target == 0


def test_a_node_registers(make_control):
  control = make_control()
  assert control.register("worker", 1) == messages.Registration(0, 0)
  control.report("worker", 1, Worker(env_steps=40, incarnation=1.0))
  assert control.register("worker", 1) == messages.Registration(1, 40)
  control.report("worker", 1, Worker(env_steps=2, incarnation=2.0))
  assert control.register("worker", 1) == messages.Registration(2, 42)
  assert control.register("worker", 0) == messages.Registration(0, 42)
  assert control.register("evaluator", 0) == messages.Registration(0, 0)


def test_a_report_ends_the_wait_for_a_round(make_control):
  control = make_control()
  with futures.ThreadPoolExecutor() as pool:
    waits = pool.submit(control.wait_collected, 4, 60.0)
    control.report("worker", 0, Worker(collected_version=4))
    assert control.wait_collected(4, 0.0) == 0, "worker 1 has not reported"
    assert not waits.done()
    control.report("worker", 1, Worker(collected_version=5))
    assert waits.result(30.0) == 4
  assert command(control, "trainer").collected_version == 4
  assert control.wait_collected(4, 60.0) == 4
  assert control.wait_collected(5, 0.0) == 4


def test_a_stop_ends_the_wait_for_a_round(make_control):
  control = make_control()
  with futures.ThreadPoolExecutor() as pool:
    waits = pool.submit(control.wait_collected, 4, 60.0)
    control.stop("SIGINT")
    assert waits.result(30.0) == 0


@pytest.fixture
def without_workers(make_control):
  """Returns a function that makes the control of a run with recorded data."""

  def make(**settings):
    rates = rates_lib.Rates(dqn.get_config(), table=None)
    return make_control({"trainer": 1, "evaluator": 1}, rates=rates, **settings)

  return make


def test_a_run_without_workers(without_workers):
  control = without_workers(steps_per_s=60.0)
  assert control.status().phase == "starting"
  control.report("trainer", 0, Trainer(trainer_steps=5, first_step_at_s=1.0))
  assert not command(control, "evaluator").stop
  control.tick()
  status = control.status()
  assert status.phase == "running"
  assert status.replay is None
  assert status.proxy is None
  assert status.workers == {}
  assert status.workers_target == 0
  assert set(status.nodes) == {"trainer", "evaluator"}
  assert (status.env_steps, status.trainer_steps) == (0, 5)
  assert control.counters().status.env_steps == 0
  assert control.counters().status.trainer_steps == 5
  control.stop("SIGINT")
  control.finished("evaluator", 0, messages.EvaluatorReport())
  control.finished("trainer", 0, Trainer(trainer_steps=6))
  control.close()
  assert json.loads(control.folder.summary.read_text())["trainer_steps"] == 6


def test_evaluations_after_the_one_that_ended_the_run_are_ignored(make_control):
  control = make_control(target_return=100.0, target_evaluations=1)
  evaluate(control, 120.0)
  control.tick()
  assert not evaluate(control, 150.0)
  status = control.status()
  assert status.stopped_because == "target_return"
  evaluation = status.evaluation
  assert evaluation.mean_return == evaluation.best_mean_return == 120.0


def test_an_evaluation_that_ends_after_the_limit_counts(make_control):
  control = make_control(trainer_steps=7)
  control.report("trainer", 0, Trainer(trainer_steps=7))
  control.tick()
  assert control.status().stopped_because == "trainer_steps"
  assert evaluate(control, 120.0)
  assert control.status().evaluation.mean_return == 120.0
  control.close()
  assert not evaluate(control, 150.0)
  assert control.status().evaluation.count == 1
