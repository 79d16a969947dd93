"""Tests of the launcher's control of a run: signals, failures, results."""

import json
import os
import signal
import sys
import time

import pytest

from slipway.configs import dqn
from slipway.environments import factory
from slipway.launch.control import messages, run_control
from slipway.launch.control import rates as rates_lib
from slipway.launch.processes import controller as controller_lib
from slipway.launch.processes import failures
from slipway.launch.processes import signals as signals_lib
from slipway.launch.runs import run as run_lib
from slipway.launch.runs import run_folder, run_status
from tests import polling
from tests.launch import controlled

NODES = ("trainer", "worker")
REPORTS = {
  "trainer": messages.TrainerReport(first_step_at_s=1.0),
  "worker": messages.WorkerReport(counts=run_status.NodeCounts(env_steps=7)),
}


@pytest.fixture
def run(tmp_path):
  config = dqn.get_config()
  folder = run_folder.RunFolder.create(tmp_path, "a-run", overwrite=False)
  folder.write_config(config)
  spec = factory.make_spec(config.environment)
  return run_lib.Run(config, spec, folder, time.time())


@pytest.fixture
def memory_dir(tmp_path):
  made = tmp_path / "memory"
  made.mkdir()
  return made


def end_nodes(control):
  for role in NODES:
    control.finished(role, 0, REPORTS[role])


def summary_of(run):
  return json.loads(run.folder.summary.read_text())


class BrokenOutput:
  """An output that raises an error other than OSError."""

  encoding = "utf-8"

  def isatty(self):
    return False

  def flush(self):
    pass

  def write(self, text):
    raise RuntimeError("broken")


def _broken_pipe():
  reader, writer = os.pipe()
  os.close(reader)
  return open(writer, "w")


@pytest.mark.parametrize("make_output", [_broken_pipe, BrokenOutput])
def test_signals_are_handled_after_a_failed_display(
  make_output, monkeypatch, run, memory_dir
):
  monkeypatch.setattr(sys, "stdout", make_output())
  signals = signals_lib.Signals()
  signals.begin_run()
  crew, workers = controlled.Crew(), []
  crew.expected = dict.fromkeys(NODES, 1)
  crew.follow = lambda control: workers.append(control.workers_target)
  with controller_lib.Controller(
    run, crew, controller_lib.socket_in(memory_dir), signals
  ) as controller:
    controller.start()
    polling.wait_until(lambda: len(workers) > 1)  # after the failure
    os.kill(os.getpid(), signal.SIGTERM)
    polling.wait_until(lambda: controller.control.stopping)
    end_nodes(controller.control)
  assert workers[0] == 1
  assert summary_of(run)["stopped_because"] == "SIGTERM"


def test_the_results_are_complete_when_the_nodes_have_ended(run, memory_dir):
  expected = dict.fromkeys(NODES, 1)
  with controlled.controlled(run, expected, memory_dir) as controller:
    controller.control.stop("control")
    end_nodes(controller.control)
  summary = summary_of(run)
  assert (summary["env_steps"], summary["stopped_because"]) == (7, "control")
  assert run.folder.curves_csv.exists()
  assert "stopping: control" in (run.folder.logs / "control").read_text()


class FailedCrew(controlled.Crew):
  """A crew whose nodes have failed."""

  has_failed = True


def test_a_run_whose_nodes_have_failed_says_so(run, memory_dir):
  with controlled.controlled(
    run, dict.fromkeys(NODES, 1), memory_dir, FailedCrew()
  ) as controller:
    polling.wait_until(lambda: controller.control.stopping)
  assert summary_of(run)["stopped_because"] == "failure"


def test_a_control_that_fails_ends_the_run(run, memory_dir, monkeypatch):
  def fail(control):
    raise OSError("curves.csv can't be written")

  monkeypatch.setattr(run_control.RunControl, "tick", fail)
  crew = controlled.Crew()
  with (
    pytest.raises(RuntimeError, match=r"curves\.csv can't be written"),
    controlled.controlled(run, dict.fromkeys(NODES, 1), memory_dir, crew),
  ):
    polling.wait_until(lambda: crew.is_stopped_quickly)
  assert summary_of(run)["stopped_because"] == "failure"


def test_a_second_interrupt_writes_no_results(run, memory_dir):
  with (
    pytest.raises(KeyboardInterrupt),
    controlled.controlled(run, dict.fromkeys(NODES, 1), memory_dir),
  ):
    raise signals_lib.SecondInterrupt
  assert not run.folder.summary.exists()


@pytest.mark.parametrize(
  ("reason", "is_quick"), [("control", False), ("SIGTERM", True)]
)
def test_the_crew_is_told_how_quickly_to_stop(
  run, memory_dir, reason, is_quick
):
  crew = controlled.Crew()
  with controlled.controlled(
    run, dict.fromkeys(NODES, 1), memory_dir, crew
  ) as it:
    it.control.stop(reason)
    polling.wait_until(lambda: crew.is_stopped_quickly is is_quick)


def test_a_lost_state_writes_no_results(run, memory_dir):
  lost = failures.StateLostError(failures.Failure("a trainer died", ""))
  with (
    pytest.raises(failures.StateLostError),
    controlled.controlled(run, dict.fromkeys(NODES, 1), memory_dir) as first,
  ):
    first.control.report(
      "worker", 0, messages.WorkerReport(variables_version=9)
    )
    raise lost
  assert not run.folder.summary.exists()
  assert first.reached is not None
  # The next control continues from what nodes have had.
  resumed = run_control.RunControl(
    run.config,
    run.folder,
    dict.fromkeys(NODES, 1),
    time.time(),
    rates_lib.Rates.from_config(run.config, run.spec),
    earlier=first.reached,
  )
  assert resumed.variables_version() == 9
  assert resumed.status().resumes == 1
  assert resumed.status().wall_s >= first.reached.status.wall_s
