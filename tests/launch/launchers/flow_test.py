"""Tests that a running program is throttled, paused, resumed and drained."""

import threading
import time

import launchpad as lp
import numpy as np
import pytest
from absl import flags
from absl.testing import absltest

from slipway.configs import prioritized_dqn
from slipway.environments import factory
from slipway.launch.launchers import host_plan, threads
from slipway.launch.launchers import program as program_lib
from slipway.launch.runs import run, run_folder
from slipway.replay.tables import table_snapshot
from tests import polling
from tests.launch import controlled

# Launchpad uses the alarm signal, which is pytest's default for timeouts.
pytestmark = pytest.mark.timeout(180, method="thread")

WORKERS, ENVIRONMENTS = 2, 4
REPORT_S = 0.5  # two report periods of a node, in which its counts arrive


def make_config():
  config = prioritized_dqn.get_config()
  config.network.hidden_sizes = (8,)
  config.replay.update(
    # Without a limiter, which would block inserts while the trainer is paused.
    {"capacity": 100_000, "min_size": 100, "samples_per_insert": 0.0}
  )
  config.learner.update({"batch_size": 16, "steps_per_call": 5})
  config.limits.target_return = float("inf")
  config.snapshot.period_s = 3_600.0  # only requested ones
  config.topology.update(
    {
      "workers": WORKERS,
      "environments_per_worker": ENVIRONMENTS,
      "replay": "own_process",
    }
  )
  return config


@pytest.fixture
def control(tmp_path):
  """Yields the control of a running program."""
  config = make_config()
  folder = run_folder.RunFolder.create(tmp_path, "a-run", overwrite=False)
  folder.write_config(config)
  memory_dir = tmp_path / "memory"
  memory_dir.mkdir()
  flags.FLAGS.mark_as_parsed()
  spec = factory.make_spec(config.environment)
  made = run.Run(config, spec, folder, time.time())
  expected = host_plan.count_expected_nodes(config)
  crew = controlled.Crew()
  with controlled.controlled(made, expected, memory_dir, crew) as controller:
    plan = host_plan.HostPlan.for_single_host(
      config, str(memory_dir), controller.socket
    )
    wiring = program_lib.make_program(made, plan)
    program, crew.threads = threads.make_program(wiring.nodes)
    case = absltest.TestCase()
    lp.launch(
      program,
      launch_type="test_mt",
      test_case=case,
      serialize_py_nodes=False,
    )
    controller.control.crew = crew
    yield controller.control
    controller.control.stop("SIGTERM")
    polling.wait_until(lambda: crew.has_ended)
    case.doCleanups()


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
  time.sleep(4 * REPORT_S)
  start_s, before = time.monotonic(), control.status().env_steps
  wait_for(control, lambda s: s.env_steps >= before + steps_per_s)
  made = control.status().env_steps - before
  passed_s = time.monotonic() - start_s
  most = steps_per_s * (passed_s + REPORT_S) + WORKERS * ENVIRONMENTS
  assert made <= most


def test_a_program_obeys(control):
  learning = wait_for(control, lambda s: s.trainer_steps > 0)
  assert learning.rates.env_steps_per_s_target == 0.0
  check_rate(control, 400.0)
  check_rate(control, 100.0)
  control.set("rates.environment_steps_per_s", 0.0)

  control.pause()
  assert control.status().phase == "paused"
  still = [(0, 0, 0)]

  def is_still(status):
    time.sleep(2 * REPORT_S)
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
  end = wait_for(control, lambda _: control.crew.has_ended)
  assert end.items_lost == 0
  assert end.items_written == end.items_confirmed == end.replay.inserted
  assert end.reconnects == 0


def test_a_snapshot_that_is_requested_during_one_follows_it(
  control, monkeypatch
):
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
