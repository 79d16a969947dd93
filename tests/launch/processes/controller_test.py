"""Tests of the launcher's control of a run: signals, failures, results."""

import json
import os
import signal
import sys
import time

import pytest

from slipway.configs import dqn
from slipway.environments import factory
from slipway.launch.orchestration import messages, run_control
from slipway.launch.processes import controller as controller_lib
from slipway.launch.processes import signals as signals_lib
from slipway.launch.runs import run as run_lib
from slipway.launch.runs import run_folder
from tests import polling
from tests.launch import controlled

NODES = ("trainer", "worker")
REPORTS = {
  "trainer": messages.TrainerReport(first_step_at_s=1.0),
  "worker": messages.WorkerReport(env_steps=7),
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
  before = {
    number: signal.getsignal(number) for number in signals_lib.STOP_SIGNALS
  }
  signals = signals_lib.Signals()
  signals.begin_run()
  workers = []
  try:
    with controller_lib.Controller(
      run, dict.fromkeys(NODES, 1), str(memory_dir), signals
    ) as controller:
      controller.direct(
        controlled.Crew(), lambda count, at_s: workers.append(count)
      )
      polling.wait_until(lambda: len(workers) > 1)  # after the failure
      os.kill(os.getpid(), signal.SIGTERM)
      polling.wait_until(lambda: controller.control.stopping)
      end_nodes(controller.control)
  finally:
    signal.set_wakeup_fd(-1)
    for number, handler in before.items():
      signal.signal(number, handler)
  assert workers[0] == 1
  assert summary_of(run)["stopped_because"] == "SIGTERM"


def test_the_results_are_complete_when_the_nodes_have_ended(run, memory_dir):
  expected = dict.fromkeys(NODES, 1)
  with controlled.controlled(run, expected, memory_dir) as controller:
    controller.control.stop("control")
    end_nodes(controller.control)
    polling.wait_until(controller.control.all_finished)
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


class ShutDownCrew(controlled.Crew):
  """A crew that notes that its nodes must end."""

  def __init__(self):
    self.is_shut_down = False

  def force_shutdown(self):
    self.is_shut_down = True


def test_a_control_that_fails_ends_the_run(run, memory_dir, monkeypatch):
  def fail(control):
    raise OSError("curves.csv can't be written")

  monkeypatch.setattr(run_control.RunControl, "tick", fail)
  crew = ShutDownCrew()
  with (
    pytest.raises(RuntimeError, match=r"curves\.csv can't be written"),
    controlled.controlled(run, dict.fromkeys(NODES, 1), memory_dir, crew),
  ):
    polling.wait_until(lambda: crew.is_shut_down)
  assert summary_of(run)["stopped_because"] == "failure"


def test_a_second_interrupt_writes_no_results(run, memory_dir):
  with (
    pytest.raises(KeyboardInterrupt),
    controlled.controlled(run, dict.fromkeys(NODES, 1), memory_dir),
  ):
    raise signals_lib.SecondInterrupt
  assert not run.folder.summary.exists()
