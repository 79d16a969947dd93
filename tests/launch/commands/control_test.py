"""`slipway control`: sends commands to a run, and explains each failure."""

import contextlib
import json
import math
import os
import socket
import subprocess
import sys
import threading
import time
import types

import msgspec
import pytest

from slipway.configs import dqn
from slipway.environments import factory
from slipway.launch.commands import cli
from slipway.launch.commands import control as control_command
from slipway.launch.control import calls, control_service, messages
from slipway.launch.nodes import link
from slipway.launch.runs import (
  records,
  run_address,
  run_folder,
  run_lock,
  run_status,
)
from slipway.launch.runs import run as run_lib
from tests import polling
from tests.launch import controlled

# Launchpad uses the alarm signal, which is pytest's default for timeouts.
pytestmark = pytest.mark.timeout(120, method="thread")


REPORTS = {
  "trainer": messages.TrainerReport(
    trainer_steps=7,
    first_step_at_s=time.time(),
    metrics={"loss": math.nan},
  ),
  "worker": messages.WorkerReport(),
}


class Node:
  """A node of a thread, which reports until it is told to end."""

  def __init__(self, control, role):
    self.role, self._control = role, control
    self.stop_event, self.ended = threading.Event(), threading.Event()
    self.thread = threading.Thread(target=self._run)
    self.thread.start()

  def _run(self):
    report = REPORTS[self.role]
    with link.Link(
      self._control, self.role, 0, lambda: report, 0.01, self.stop_event
    ) as node_link:
      while not node_link.wait(0.05):
        pass
    self.ended.set()


@pytest.fixture
def memory_dir(tmp_path):
  made = tmp_path / "memory"
  made.mkdir()
  return made


@pytest.fixture
def folder(tmp_path):
  folder = run_folder.RunFolder.create(tmp_path, "a-run", overwrite=False)
  folder.write_config(dqn.get_config())
  return folder


@pytest.fixture
def run(folder, memory_dir):
  """Yields the folder of a run with a launcher and two nodes.

  The launcher is a thread, which ends after the nodes.
  """
  config = dqn.get_config()
  spec = factory.make_spec(config.environment)
  made = run_lib.Run(config, spec, folder, time.time())
  crew, controls = controlled.Crew(), []

  def launch():
    with controlled.controlled(
      made, dict.fromkeys(REPORTS, 1), memory_dir, crew
    ) as controller:
      nodes = []
      for role in REPORTS:
        client = calls.connect(
          control_service.ControlService, controller.socket
        )
        nodes.append(Node(client, role))
      crew.threads = nodes
      controls.append(controller.control)
      for node in nodes:
        node.thread.join()

  launcher = threading.Thread(target=launch)
  launcher.start()
  control = polling.wait_until(lambda: controls)[0]
  polling.wait_until(lambda: control.status().phase == "running")
  yield folder
  control.stop("end")
  launcher.join()


@pytest.fixture
def control(capsys):
  """Returns a function that runs `slipway control` on a run's folder.

  It returns the exit status, the standard output and the standard error.
  """

  def control(folder, *arguments):
    status = cli.run(["slipway", "control", f"--run={folder.path}", *arguments])
    return status, *capsys.readouterr()

  return control


def check_fails(called, expected_status, *parts):
  """Checks the result of the fixture `control`: one line, with all parts."""
  status, out, err = called
  assert (status, out) == (expected_status, "")
  assert err.startswith("control: ") and err.count("\n") == 1
  for part in parts:
    assert str(part) in err


def test_a_run_obeys(run, control):
  status, out, err = control(run, "status")
  assert (status, err) == (0, "")
  assert "a-run: running" in out
  assert "trainer 7 steps" in out

  assert control(run, "pause")[1].endswith("a-run: paused\n")
  assert "waiting: paused" in control(run, "status")[1]
  assert control(run, "resume")[1].endswith("a-run: running\n")

  status, out, _ = control(run, "set", "limits.target_return", "-90")
  assert (status, out) == (0, "limits.target_return is -90 now\n")
  control(run, "set", "rates.environment_steps_per_s", "1_000")
  for count in (3, 1):
    assert control(run, "workers", f"{count}") == (
      0,
      f"workers are {count} now\n",
      "",
    )
    reported = json.loads(control(run, "status", "--json")[1])
    assert reported["workers_target"] == count
  assert control(run, "save") == (0, "a snapshot is being written\n", "")

  status, out, _ = control(run, "status", "--json")
  reported = json.loads(
    out, parse_constant=lambda constant: pytest.fail(constant)
  )
  assert reported["trainer_steps"] == 7
  assert reported["limits"]["target_return"] == -90.0
  assert reported["rates"]["env_steps_per_s_target"] == 1_000.0
  assert reported["learner"] == {"loss": None}
  assert reported["nodes"] == {
    role: {"up": 1, "expected": 1} for role in REPORTS
  }

  assert control(run, "stop") == (0, "stopped\n", "")
  polling.wait_until(lambda: not run_address.path_in(run).exists())
  status, out, err = control(run, "status")
  assert status == 1
  assert "trainer 7 steps" in out
  assert json.loads(control(run, "status", "--json")[1])["trainer_steps"] == 7
  assert err == (
    f"control: run {str(run.path)!r} has ended: a user stopped it by "
    "slipway control\n"
  )


def test_a_command_that_the_run_rejects_prints_one_line(run, control):
  for words, part in (
    ("set limits.trainer_steps -1", "limits.trainer_steps=-1 must be at least"),
    ("set limits.trainr_steps 1", "did you mean limits.trainer_steps?"),
    *((f"workers {x}", f"topology.workers={x} must be in [1, 256]")
      for x in ("0", "257", "1" + "0" * 30, "-1")),
    *((f"workers {x}", f"workers {x!r} is no whole number")
      for x in ("many", "1.5", "nan")),
  ):  # fmt: skip
    check_fails(control(run, *words.split()), 2, part)


def test_a_process_of_its_own(run):
  """The command runs in its own process, without slow imports."""
  done = subprocess.run(
    [
      *(sys.executable, "-X", "importtime"),
      *("-m", "slipway.launch.commands.cli", "control"),
      "status", "--run", str(run.path), "--json",
    ],
    capture_output=True, text=True, timeout=60,
  )  # fmt: skip
  assert done.returncode == 0, done.stderr
  assert json.loads(done.stdout)["phase"] == "running"
  imported = {line.rpartition("|")[2].strip() for line in
              done.stderr.splitlines()}  # fmt: skip
  assert "slipway.launch.control.calls" in imported
  assert not {"tensorflow", "reverb", "gymnasium"} & imported


# arguments, words that the printed line must contain
REJECTED = [
  ((), "there is no command, so nothing is done: give one of status, pause"),
  (("stat",), "'stat' is no command, so nothing is done: did you mean status?"),
  (("xyz",), "use one of status, pause, resume, stop, save, set, workers"),
  (("workers",), "give 'workers N'"),
  (("set", "limits.trainer_steps"), "give 'set FIELD VALUE'"),
  (("pause", "5"), "'pause 5' has the wrong arguments"),
  (("status", "--jso"), "--jso is no flag, so it would do nothing: did you "
   "mean --json?"),
  (("--command=status",), "the command is a word, such as `slipway control"),
  (("stop", "--json"), "--json is an option of status only"),
]  # fmt: skip


@pytest.mark.parametrize(("arguments", "words"), REJECTED)
def test_bad_input(folder, control, arguments, words):
  check_fails(control(folder, *arguments), 2, words)


def test_no_run(tmp_path, control, capsys):
  status, _, err = control(run_folder.RunFolder(tmp_path / "nothing"), "status")
  assert status == 2
  assert "is not a run" in err
  assert cli.run(["slipway", "control", "status"]) == 2
  err = capsys.readouterr().err
  assert "--run is missing" in err and "None" not in err


def test_help(capsys):
  with pytest.raises(SystemExit) as end:
    cli.run(["slipway", "control", "--help"])
  assert not end.value.code
  out = capsys.readouterr().out
  for words in ("stop, save, set FIELD VALUE, workers N", "--run"):
    assert words in out


def test_a_run_that_never_started(folder, control):
  check_fails(control(folder, "pause"), 1, "has no control.json")


def publish(folder, address, pid, host=None):
  where = run_address.RunAddress(address, pid, host or socket.gethostname())
  run_address.path_in(folder).write_bytes(msgspec.json.encode(where))


def test_a_run_that_was_killed(folder, control):
  with subprocess.Popen(["sleep", "600"]) as process:
    publish(folder, "localhost:1", process.pid)
    process.kill()
  for word in ("status", "stop"):
    down = f"process {process.pid}, is down"
    check_fails(control(folder, word), 1, down)


@pytest.mark.parametrize("hangs", [False, True])
def test_stop_waits_for_the_end_of_the_launcher(
  folder, control, tmp_path, monkeypatch, hangs
):
  """The launcher of a stopped run still waits for hooks, and keeps its lock."""
  launcher = contextlib.ExitStack()
  ends = threading.Timer(0.5, launcher.close)

  def status():
    if not hangs:
      ends.start()
    return run_status.RunStatus(phase="stopped")

  if hangs:
    monkeypatch.setattr(control_command, "_END_TIMEOUT_S", 0.0)
  node = types.SimpleNamespace(stop=lambda reason: None, status=status)
  path = str(tmp_path / "control.sock")
  with launcher, calls.Server(path, control_service.ControlService, node):
    launcher.enter_context(run_lock.held(folder))
    publish(folder, path, os.getpid())
    ended = control(folder, "stop")
    if hangs:
      check_fails(ended, 1, "has not ended within 0 s")
    else:
      assert ended == (0, "stopped\n", "")
      with run_lock.held(folder):  # as `slipway train --resume` does
        pass


def test_the_status_of_a_run_that_has_ended(folder, control):
  status = run_status.RunStatus(
    phase="stopped", stopped_because="SIGTERM", advice=["lower it"]
  )
  folder.summary.write_bytes(records.to_json(status))
  code, out, _ = control(folder, "status")
  assert code == 1  # since the run has ended
  assert "stopped: SIGTERM" in out
  assert "advice: lower it" in out
  code, out, _ = control(folder, "status", "--json")
  assert code == 1
  assert json.loads(out)["stopped_because"] == "SIGTERM"


@pytest.mark.parametrize(
  "content",
  [b"", b"{}", b"[]", b'{"mode": "as', b"\xff", b'{"env_steps": "a"}'],
)
@pytest.mark.parametrize(
  "arguments", [("status",), ("status", "--json"), ("pause",)]
)
def test_a_damaged_summary_is_named(folder, control, content, arguments):
  folder.summary.write_bytes(content)
  parts = (repr(str(folder.summary)), "remove it")
  check_fails(control(folder, *arguments), 2, *parts)


def test_a_run_of_another_machine(folder, control):
  publish(folder, "localhost:1", os.getpid(), host="another")
  check_fails(control(folder, "status"), 1, "is on another", "machine")


@pytest.mark.parametrize("listens", [True, False])
def test_a_run_that_does_not_reply(folder, control, tmp_path, listens):
  path = str(tmp_path / "s")
  with socket.socket(socket.AF_UNIX) as silent:
    silent.bind(path)
    if listens:
      silent.listen()
    publish(folder, path, os.getpid())
    with run_lock.held(folder):
      silence = f"does not reply (process {os.getpid()} on "
      check_fails(control(folder, "status"), 1, silence, path)
