"""Tests of a whole program that Launchpad runs."""

import contextlib
import csv
import dataclasses
import threading
import time

import launchpad as lp
import numpy as np
import pytest
import reverb
from absl import flags
from absl.testing import absltest

from slipway.configs import ppo, prioritized_dqn
from slipway.environments import factory
from slipway.launch.control import rates
from slipway.launch.launchers import host_plan, threads
from slipway.launch.launchers import program as program_lib
from slipway.launch.runs import run, run_folder
from slipway.replay.tables import table_snapshot, tables
from slipway.replay.variables import shared_variables, variables
from tests import polling
from tests.launch import controlled

# Launchpad uses the alarm signal, which is pytest's default for timeouts.
pytestmark = pytest.mark.timeout(180, method="thread")

WORKERS, ENVIRONMENTS, BATCH_SIZE = 2, 4, 16
REPORT_S = 0.25  # seconds between two reports of a node


def make_config(proxy, replay):
  config = prioritized_dqn.get_config()
  config.network.hidden_sizes = (8,)
  config.replay.update(
    {"capacity": 1_000, "min_size": 100, "samples_per_insert": 4.0}
  )
  config.learner.update({"batch_size": BATCH_SIZE, "steps_per_call": 5})
  config.variables.publish_period = 5
  config.evaluation.update({"episodes": 3, "period_s": 0.1})
  config.limits.target_return = float("inf")
  config.topology.update(
    {
      "workers": WORKERS,
      "environments_per_worker": ENVIRONMENTS,
      "proxy": proxy,
      "replay": replay,
    }
  )
  return config


class Launched:
  """A running program."""

  def __init__(self, config, folder, memory_dir, workers_elsewhere):
    flags.FLAGS.mark_as_parsed()
    spec = factory.make_spec(config.environment)
    made = run.Run(config, spec, folder, time.time())
    expected = host_plan.count_expected_nodes(config)
    expected["worker"] += workers_elsewhere
    self.crew = crew = controlled.Crew()
    self._held = contextlib.ExitStack()
    controller = self._held.enter_context(
      controlled.controlled(made, expected, memory_dir, crew)
    )
    self.control = controller.control
    plan = host_plan.HostPlan.for_single_host(
      config, memory_dir, controller.socket
    )
    wiring = program_lib.make_program(
      made, dataclasses.replace(plan, expected=expected)
    )
    program, crew.threads = threads.make_program(wiring.nodes)
    self._case = absltest.TestCase()
    lp.launch(
      program,
      launch_type="test_mt",
      test_case=self._case,
      serialize_py_nodes=False,
    )
    self.server_address = wiring.data.upstream(0)
    self.server = reverb.Client(self.server_address)

  def close(self):
    self.control.stop("SIGTERM")
    polling.wait_until(lambda: self.crew.has_ended)
    self._case.doCleanups()
    self._held.close()

  def wait_for(self, trainer_steps):
    """Waits for a number of trainer steps, and returns the status."""
    return polling.wait_until(
      self.control.status, wanted=lambda s: s.trainer_steps >= trainer_steps
    )

  def pause(self):
    """Pauses all nodes, and returns the status once it no longer changes."""
    self.control.pause()
    seen = []

    def is_still(status):
      time.sleep(2 * REPORT_S)
      seen.append((status.env_steps, status.trainer_steps))
      return len(seen) > 2 and seen[-1] == seen[-2] == seen[-3]

    return polling.wait_until(self.control.status, wanted=is_still)

  def counts(self):
    """Returns the table's size, and the inserts and samples since the start."""
    info = self.server.server_info(timeout=5)[tables.TRANSITIONS]
    limiter = info.rate_limiter_info
    return (
      info.current_size,
      limiter.insert_stats.completed,
      limiter.sample_stats.completed,
    )

  def priorities(self, samples):
    """Returns the priorities of sampled items, by key."""
    sampled = self.server.sample(
      tables.TRANSITIONS, samples, emit_timesteps=False
    )
    return {item.info.key: item.info.priority for item in sampled}


TOPOLOGIES = [(True, "own_process"), (False, "with_trainer")]


@pytest.fixture
def launch(tmp_path):
  """Yields a function that launches a program, and stops all of them."""
  programs = []

  def launch(config, workers_elsewhere=0):
    folder = run_folder.RunFolder.create(tmp_path, "a-run", overwrite=False)
    folder.write_config(config)
    memory_dir = tmp_path / "memory"
    memory_dir.mkdir()
    launched = Launched(config, folder, str(memory_dir), workers_elsewhere)
    launched.folder = folder
    launched.variables_path = memory_dir / "variables"
    programs.append(launched)
    return launched

  yield launch
  for launched in programs:
    launched.close()


@pytest.mark.parametrize(
  "topology", TOPOLOGIES, ids=lambda topology: "-".join(map(str, topology))
)
def test_a_run(launch, topology):
  config = make_config(*topology)
  launched = launch(config)
  launched.wait_for(trainer_steps=20)
  polling.wait_until(
    launched.control.status, wanted=lambda s: s.evaluation.count >= 2
  )
  status = launched.pause()

  # All steps are written, except the newest ones of each environment.
  still_open = WORKERS * ENVIRONMENTS * config.adder.n_step
  size, inserted, sampled = launched.counts()
  assert status.items_lost == status.reconnects == 0
  # Written items that the limiter still blocks are not inserted yet.
  assert status.items_confirmed <= inserted <= status.items_written
  assert status.items_written <= status.env_steps
  assert status.env_steps - still_open <= status.items_written
  assert size == min(inserted, config.replay.capacity)

  # The limiter kept inserts and samples within its bounds.
  spec = factory.make_spec(config.environment)
  limiter = rates.Rates.from_config(config, spec).limiter
  difference = limiter.difference(inserted, sampled)
  assert limiter.min_diff <= difference <= limiter.max_diff
  assert sampled >= status.trainer_steps * BATCH_SIZE

  # The newest variables have reached the workers' side.
  period = config.variables.publish_period
  version = status.variables.version
  assert 1 < version <= 1 + status.trainer_steps // period
  if config.topology.proxy:
    shared = shared_variables.SharedVariables(str(launched.variables_path))
    newest = polling.wait_until(shared.poll)
    assert status.bytes_up > 0
    # The trainer wrote them, so it sent none, and its machine fetched none.
    info = launched.server.server_info(10)[variables.TABLE]
    assert info.rate_limiter_info.insert_stats.completed == 0
    assert status.variables_fetched == 0
    assert status.proxy.variables_version is None
  else:
    assert not launched.variables_path.exists()
    assert status.proxy is None
    newest = polling.wait_until(
      variables.ServerVariables(launched.server_address, period_s=0.0).poll
    )
  assert newest.version == version
  assert all(value.size for value in newest.variables.values())
  with open(launched.folder.curves_csv, newline="") as file:
    rows = list(csv.DictReader(file))
  versions = [int(row["variables_version"]) for row in rows]
  assert versions == sorted(versions)
  assert 1 <= versions[0] < versions[-1] <= version
  # CartPole's episodes have at least 8 steps under any policy.
  assert all(float(row["eval_return"]) >= 8.0 for row in rows)


def test_new_priorities_reach_the_table(launch):
  config = make_config(proxy=True, replay="with_trainer")
  # The test samples, too, and the sampled items must stay in the table.
  config.replay.update({"samples_per_insert": 0.0, "capacity": 100_000})
  config.rates.environment_steps_per_s = 200.0
  launched = launch(config)
  first = launched.wait_for(trainer_steps=5)
  before = launched.priorities(100)
  launched.wait_for(trainer_steps=first.trainer_steps + 200)
  after = launched.priorities(400)
  both = before.keys() & after.keys()
  assert both
  assert any(before[key] != after[key] for key in both)


def test_one_more_worker(tmp_path):
  config = make_config(proxy=True, replay="with_trainer")
  wiring = program_lib.make_program(
    run.Run(
      config,
      factory.make_spec(config.environment),
      run_folder.RunFolder.create(tmp_path, "a-run", overwrite=False),
      time.time(),
    ),
    host_plan.HostPlan.for_single_host(
      config, str(tmp_path), str(tmp_path / "control.sock")
    ),
  )
  nodes = [node for node in wiring.nodes if node.role == "worker"]
  more = wiring.make_worker(WORKERS, WORKERS + 1)
  configs, _, indices, data = zip(
    *[node.args for node in [*nodes, more]], strict=True
  )
  workers = [config.topology.workers for config in configs]
  assert workers == [WORKERS] * WORKERS + [WORKERS + 1]
  assert indices == tuple(range(WORKERS + 1))
  assert len(set(data)) == 1
  assert more.control_socket == str(tmp_path / "control.sock")
  program, _ = threads.make_program(wiring.nodes)
  assert len(program.groups["worker"]) == WORKERS


def test_a_queue_counts_the_workers_of_all_machines(launch):
  config = ppo.get_config()
  config.mode = "async"
  config.variables.max_age = 8
  config.network.hidden_sizes = (8,)
  config.limits.target_return = float("inf")
  config.topology.update({"workers": 1, "environments_per_worker": 4})
  program = launch(config, workers_elsewhere=3)
  # 7 batches of 8 rollouts, minus the unfinished rollouts of 16 environments.
  queue = polling.wait_until(
    lambda: program.server.server_info(5)[tables.TRANSITIONS]
  )
  assert queue.rate_limiter_info.max_diff == 7 * 8 - 16
  polling.wait_until(
    lambda: program.control.status().replay.capacity,
    wanted=lambda capacity: capacity == 7 * 8 - 16,
  )
  # The control then no longer waits for workers that do not exist.
  elsewhere = [("worker", index) for index in (1, 2, 3)]
  program.control.place({}, {"worker": 4}, elsewhere)


def wait_for(control, wanted):
  """Returns the first status that is as wanted."""
  return polling.wait_until(control.status, 90.0, wanted=wanted)


def counts(status):
  return status.env_steps, status.trainer_steps, status.items_written


def check_rate(control, steps_per_s):
  """Asserts that no more steps are made than a rate allows."""
  control.set("rates.environment_steps_per_s", steps_per_s)
  # The new rate comes with the reply to a report, and what was made before it
  # is counted by the next one. On a busy machine both are late.
  time.sleep(8 * REPORT_S)
  start_s, before = time.monotonic(), control.status().env_steps
  wait_for(control, lambda s: s.env_steps >= before + steps_per_s)
  made = control.status().env_steps - before
  passed_s = time.monotonic() - start_s
  most = steps_per_s * (passed_s + 2 * REPORT_S) + WORKERS * ENVIRONMENTS
  assert made <= most


def make_flow_config():
  """Returns a config without a limiter, which a pause would make block."""
  config = make_config(proxy=True, replay="own_process")
  config.replay.update({"samples_per_insert": 0.0, "capacity": 100_000})
  config.snapshot.period_s = 3_600.0  # only requested ones
  return config


def test_a_program_obeys(launch):
  launched = launch(make_flow_config())
  control = launched.control
  learning = wait_for(control, lambda s: s.trainer_steps > 0)
  assert learning.rates.env_steps_per_s_target == 0.0
  check_rate(control, 400.0)
  check_rate(control, 100.0)
  control.set("rates.environment_steps_per_s", 0.0)

  control.pause()
  assert control.status().phase == "paused"
  still = [(0, 0, 0)]

  def is_still(status):
    time.sleep(4 * REPORT_S)
    still.append(counts(status))
    return still[-1] == still[-2]

  paused = wait_for(control, is_still)
  # All written items are in the table; none is still on its way.
  assert paused.items_written == paused.items_confirmed
  assert paused.replay.inserted == paused.items_confirmed > 0
  assert counts(control.status()) == still[-1]

  control.resume()
  wait_for(control, lambda s: np.greater(counts(s), counts(paused)).all())
  assert control.status().phase == "running"

  control.stop("SIGTERM")
  end = wait_for(control, lambda _: launched.crew.has_ended)
  assert end.items_lost == 0
  assert end.items_written == end.items_confirmed == end.replay.inserted
  assert end.reconnects == 0


def test_a_snapshot_that_is_requested_during_one_follows_it(
  launch, monkeypatch
):
  control = launch(make_flow_config()).control
  wait_for(control, lambda status: status.trainer_steps > 0)
  is_writing, disk_is_free = threading.Event(), threading.Event()
  finish = table_snapshot.TableSaver.finish

  def finish_late(saver):
    is_writing.set()
    assert disk_is_free.wait(60.0)
    finish(saver)

  monkeypatch.setattr(table_snapshot.TableSaver, "finish", finish_late)
  control.save()
  assert is_writing.wait(60.0)
  before = control.status().trainer_steps
  control.save()
  wait_for(control, lambda status: status.trainer_steps > before + 100)
  assert control.status().snapshots.written == 0
  disk_is_free.set()
  wait_for(control, lambda status: status.snapshots.written == 2)
