"""Tests of a node's link to the control of its run."""

import contextlib
import queue
import threading
import time

import pytest

from slipway.configs import dqn
from slipway.environments import factory
from slipway.launch.control import calls, control_service, messages
from slipway.launch.nodes import link
from slipway.launch.runs import run as run_lib
from slipway.launch.runs import run_folder, run_status
from tests import polling
from tests.launch import controlled

# Launchpad uses the alarm signal, which is pytest's default for timeouts.
pytestmark = pytest.mark.timeout(120, method="thread")

PERIOD_S = 0.01


class Follower:
  """A worker that only passes its link to the test."""

  def __init__(self, control, period_s, links, end):
    self._control = control
    self._period_s = period_s
    self._links, self._end = links, end
    self.told = threading.Event()  # to stop, as by the runner's signal
    self.report = messages.WorkerReport(
      counts=run_status.NodeCounts(env_steps=7)
    )

  def read_report(self):
    return self.report

  def run(self):
    with link.Link(
      self._control,
      "worker",
      0,
      self.read_report,
      self._period_s,
      self.told,
    ) as node_link:
      self._links.put((self, node_link))
      self._end.wait()


class Launched:
  """A control, the run's only node, and that node's link."""

  def __init__(self, config, folder, period_s):
    self.end, links = threading.Event(), queue.Queue()
    memory_dir = folder.path / "memory"
    memory_dir.mkdir()
    spec = factory.make_spec(config.environment)
    self._held = contextlib.ExitStack()
    controller = self._held.enter_context(
      controlled.controlled(
        run_lib.Run(config, spec, folder, time.time()),
        {"worker": 1},
        memory_dir,
      )
    )
    self.control = controller.control
    client = calls.connect(control_service.ControlService, controller.socket)
    follower = Follower(client, period_s, links, self.end)
    self._thread = threading.Thread(target=follower.run)
    self._thread.start()
    self.node, self.link = links.get(timeout=60.0)

  def close(self):
    self.end.set()
    self.control.stop("SIGTERM")
    self._thread.join()
    self._held.close()


@pytest.fixture
def launch(tmp_path):
  """Yields a function that launches a program, and stops all of them.

  The target rate is 250 environment steps per second.
  """
  config = dqn.get_config()
  config.rates.environment_steps_per_s = 250.0
  folder = run_folder.RunFolder.create(tmp_path, "a-run", overwrite=False)
  folder.write_config(config)
  programs = []

  def launch(period_s=PERIOD_S):
    programs.append(Launched(config, folder, period_s))
    return programs[-1]

  yield launch
  for program in programs:
    program.close()


def test_a_node_obeys_its_commands(launch):
  launched = launch()
  control, node_link = launched.control, launched.link
  polling.wait_until(lambda: control.status().env_steps == 7)

  def wait_for(paused, steps_per_s):
    polling.wait_until(
      lambda: (
        (node_link.command.paused, node_link.command.steps_per_s)
        == (paused, steps_per_s)
      )
    )

  wait_for(False, 250.0)
  assert node_link.command.workers == 1
  control.pause()
  wait_for(True, 250.0)
  assert not node_link.wait(PERIOD_S)
  control.set("rates.environment_steps_per_s", 0.0)
  wait_for(True, 0.0)
  control.resume()
  wait_for(False, 0.0)

  assert not node_link.stopping
  launched.node.told.set()
  assert node_link.wait(60.0)
  assert node_link.stopping

  assert control.status().nodes["worker"] == run_status.NodesStatus(1, 1)
  launched.node.report = messages.WorkerReport(
    counts=run_status.NodeCounts(env_steps=9)
  )
  launched.end.set()
  polling.wait_until(lambda: control.status().nodes["worker"].up == 0)
  polling.wait_until(lambda: control.status().env_steps == 9)


def test_a_node_that_starts_during_a_pause_is_paused_at_once(launch):
  launched = launch(period_s=3_600.0)
  launched.control.pause()
  with link_to(launched.control) as node_link:
    assert node_link.command.paused
    assert node_link.command.steps_per_s == 250.0
    assert not node_link.stopping


def link_to(control, stop_event=None, role="worker"):
  """Returns the link of a node that starts later than the program's node."""
  return link.Link(
    control,
    role,
    0,
    messages.WorkerReport,
    PERIOD_S,
    stop_event or threading.Event(),
  )


class LateControl:
  """A control that fails at its first calls, and then pauses the run."""

  def __init__(self, failures):
    self.calls, self._failures = 0, failures

  def report(self, role, index, report):
    self.calls += 1
    if self.calls <= self._failures:
      raise calls.UnreachableError("not yet")
    return messages.Command(paused=True)

  def finished(self, role, index, report):
    pass


def test_a_node_waits_for_a_control_that_replies_late():
  control = LateControl(failures=3)
  with link_to(control) as node_link:
    assert control.calls >= 4
    assert node_link.command == messages.Command(paused=True)
    assert not node_link.stopping


def test_a_node_can_be_stopped_without_a_control():
  control, stop_event = LateControl(failures=10**9), threading.Event()
  timer = threading.Timer(5 * PERIOD_S, stop_event.set)
  timer.start()
  with link_to(control, stop_event) as node_link:
    assert control.calls > 0
    assert node_link.stopping


class StalledControl(LateControl):
  """A control that sends one command, and then never replies again."""

  def __init__(self, command):
    super().__init__(failures=0)
    self._command = command

  def report(self, role, index, report):
    self.calls += 1
    if self.calls > 1:
      raise calls.UnreachableError("stalled")
    return self._command


@pytest.fixture
def short_loss(monkeypatch):
  monkeypatch.setattr(link, "LOST_AFTER_S", 5 * PERIOD_S)


def test_a_node_waits_for_a_control_that_stalls(short_loss):
  control = StalledControl(messages.Command())
  with link_to(control) as node_link:
    assert not node_link.wait(20 * PERIOD_S)
    assert control.calls > 10


def test_an_external_process_stops_without_a_failure(short_loss):
  with link_to(
    StalledControl(messages.Command()), role=messages.EXTERNAL
  ) as node_link:
    assert node_link.wait(60.0)


def test_a_rejected_rate_changes_nothing(launch):
  launched = launch()
  polling.wait_until(lambda: launched.control.status().env_steps == 7)
  with pytest.raises(
    ValueError, match=r"environment_steps_per_s=-1\.0 must be"
  ):
    launched.control.set("rates.environment_steps_per_s", -1.0)
  polling.wait_until(lambda: launched.link.command.steps_per_s == 250.0)


def test_a_failed_report_raises_an_error_in_the_node(launch):
  launched = launch()
  launched.node.report = None  # not a report
  with pytest.raises(RuntimeError, match="the link's thread failed") as error:
    launched.link._thread.join(timeout=60.0)
    launched.link.wait(0.0)
  assert isinstance(error.value.__cause__, TypeError)
  launched.node.report = messages.WorkerReport()


def test_report_now_sends_a_report_at_once(launch):
  launched = launch(period_s=3_600.0)
  control = launched.control
  polling.wait_until(lambda: control.wait_collected(1, 0.0) == 0)
  for version in range(1, 4):
    launched.node.report = messages.WorkerReport(collected_version=version)
    launched.link.report_now()
    polling.wait_until(lambda v=version: control.wait_collected(v, 1.0) == v)
  assert control.status().restarts == 0, "all reports are of one incarnation"
