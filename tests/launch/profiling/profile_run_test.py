"""Tests of the profile and the metrics of real runs, one in each mode."""

import json
import signal
import subprocess
import sys
import threading
import urllib.request

import pytest
from prometheus_client import parser

import slipway
from slipway.launch.api import running
from slipway.launch.commands import cli, prometheus
from slipway.launch.runs import run_folder
from tests import polling
from tests.launch import errors

pytestmark = pytest.mark.runs

# What each process of a run must be seen in, by mode.
NODES = {
  "launcher": set(),
  "trainer/0": {"update"},
  "worker/0": {"environment", "actor"},
  "proxy/0": set(),
  "evaluator/0": set(),
}
SINGLE = {"launcher": {"environment", "actor", "update", "table"}}
PROCESSES = {"async": NODES, "sync": NODES, "single": SINGLE}


def read_metrics(url):
  """Returns the metrics that Prometheus would read, by name and section."""
  with urllib.request.urlopen(url, timeout=10) as reply:
    text = reply.read().decode()
  return {
    (sample.name, sample.labels["section"]): sample.value
    for family in parser.text_string_to_metric_families(text)
    for sample in family.samples
  }


def read_steps(path):
  """Returns the steps of each process in a flame graph."""
  found = {}
  for line in path.read_text().splitlines():
    process, _, step, *_ = line.split(";")
    found.setdefault(process, set()).add(step)
  return found


@pytest.mark.parametrize("mode", PROCESSES)
def test_each_process_is_measured_and_profiled(mode, tmp_path, capsys):
  config = slipway.load_config("prioritized_dqn:cartpole")
  config.replay.min_size = 100
  config.evaluation.episodes = 2
  config.limits.target_return = float("inf")
  wanted = PROCESSES[mode]
  run = slipway.start(config, name="a-run", run_dir=tmp_path, mode=mode)
  server = prometheus.Server(0)
  assert read_metrics(server.url) == {}
  server.folder = run_folder.RunFolder(run.folder)
  try:
    polling.wait_until(
      lambda: run.status().trainer_steps > 100, timeout_s=200.0
    )
    usage = run.status().monitors["home"]
    assert {*usage.processes} == {*wanted}
    assert all(x.memory_bytes for x in usage.processes.values())
    values = read_metrics(server.url)
    assert values["slipway_trainer_steps", "run"] > 100
    for name in wanted:
      section = f"monitors/home/processes/{name}"
      assert values["slipway_memory_bytes", section] > 0
    path = tmp_path / "trace.json"
    (tmp_path / "other").write_text("of the user")
    flame_graph = run.folder / "profile.collapsedstack.txt"
    flame_graph.symlink_to(tmp_path / "other")
    argv = ["slipway", "profile", str(run.folder), "--seconds=2"]
    assert cli.run([*argv, f"--trace={path}"]) == 0
    assert (tmp_path / "other").read_text() == "of the user"
  finally:
    run.stop()
    run.wait()
    assert read_metrics(server.url) == {}
    server.close()
  text = capsys.readouterr().out  # the run's lines, too
  assert any({*line.split()} == {*wanted} for line in text.splitlines())
  assert f"\n{flame_graph}\n{path}\n" in text
  steps = read_steps(flame_graph)
  for name, seen in wanted.items():
    assert seen <= steps.get(name, set())
  events = json.loads(path.read_text())["traceEvents"]
  named = {x["args"]["name"] for x in events if x.get("name") == "process_name"}
  assert named == {*wanted}
  # A run that has ended has no processes.
  assert cli.run(argv) == 1
  errors.check_printed(capsys, "has ended")


@pytest.mark.parametrize(
  ("arguments", "part"),
  [
    ([], "0 runs are given"),
    (["a", "b"], "2 runs are given"),
    (["a", "--seconds=0"], "--seconds=0"),
    (["a", "--trace=no/such/file"], "no/such/file"),
    (["a", "--samples_per_s=1001"], "--samples_per_s=1001"),
    (["no-run"], "no-run"),
  ],
)
def test_a_wrong_command_is_rejected(arguments, part, capsys):
  assert cli.run(["slipway", "profile", *arguments]) == 2
  errors.check_printed(capsys, part)


@pytest.fixture
def endless(tmp_path):
  """Starts a run in mode single that has learned, and stops it in the end."""
  config = slipway.load_config("dqn:cartpole")
  config.replay.min_size = 100
  config.limits.target_return = float("inf")
  run = slipway.start(config, name="a-run", run_dir=tmp_path, mode="single")
  try:
    polling.wait_until(lambda: run.status().trainer_steps > 0, timeout_s=200.0)
    yield run
  finally:
    run.stop()
    run.wait()


def test_a_profile_ends_with_its_run(endless, capsys):
  threading.Timer(1.0, endless.stop).start()
  argv = ["slipway", "profile", str(endless.folder), "--seconds=60"]
  assert cli.run(argv) in (1, 2)
  error = capsys.readouterr().err
  assert "the run is stopping" in error or "has ended" in error


def test_an_interrupted_profile_ends_soon(endless):
  folder = run_folder.RunFolder(endless.folder)

  def is_profiled():
    with running.connect(folder) as control:
      try:
        control.sample(0.0, 20, True)
      except ValueError as error:
        assert "another `slipway profile`" in str(error)
        return True
    return False

  argv = ["slipway", "profile", str(folder.path)]
  program = "from slipway.launch.commands import cli; cli.main()"
  first = subprocess.Popen([sys.executable, "-c", program, *argv[1:]])
  polling.wait_until(is_profiled)
  assert cli.run(argv) == 2
  first.send_signal(signal.SIGINT)
  assert first.wait(timeout=60) == 1
  polling.wait_until(lambda: not is_profiled(), timeout_s=10.0)
  assert cli.run([*argv, "--seconds=1"]) == 0
