"""Tests of the profile and the metrics of real runs, one in each mode."""

import json
import threading
import urllib.error
import urllib.request

import pytest
from prometheus_client import parser

import slipway
from slipway.launch.commands import prometheus
from slipway.launch.profiling import command
from slipway.launch.runs import run_folder
from tests import polling
from tests.launch import errors

pytestmark = pytest.mark.runs

# What each process of a run must be seen in, by mode.
NODES = {
  "launcher": {"waiting"},
  "trainer/0": {"update"},
  "worker/0": {"environment", "actor"},
  "proxy/0": {"waiting"},
  "evaluator/0": {"waiting"},
}
SINGLE = {"launcher": {"environment", "actor", "update", "table"}}
PROCESSES = {"async": NODES, "sync": NODES, "single": SINGLE}


def read_metrics(url):
  """Returns the metrics that Prometheus would read, by name and labels."""
  with urllib.request.urlopen(url, timeout=10) as reply:
    text = reply.read().decode()
  return {
    (sample.name, sample.labels.get("process")): sample.value
    for family in parser.text_string_to_metric_families(text)
    for sample in family.samples
  }


@pytest.mark.parametrize("mode", PROCESSES)
def test_each_process_is_measured_and_profiled(mode, tmp_path, capsys):
  config = slipway.load_config("prioritized_dqn:cartpole")
  config.replay.min_size = 100
  config.evaluation.episodes = 2
  config.limits.target_return = float("inf")
  wanted = PROCESSES[mode]
  run = slipway.start(config, name="a-run", run_dir=tmp_path, mode=mode)
  server = prometheus.Server(0)
  server.start(run_folder.RunFolder(run.folder))
  try:
    polling.wait_until(lambda: run.status().trainer_steps > 100)
    usage = run.status().monitors["home"]
    assert {*usage.processes} == {*wanted}
    assert all(x.memory_bytes for x in usage.processes.values())
    values = read_metrics(server.url)
    assert values["slipway_trainer_steps_total", None] > 100
    for name in wanted:
      assert values["slipway_process_memory_bytes", name] > 0
    path = tmp_path / "trace.json"
    (tmp_path / "other").write_text("of the user")
    (run.folder / "profile.svg").symlink_to(tmp_path / "other")
    argv = ["slipway profile", str(run.folder), "--seconds=2", "--json"]
    assert command.main([*argv, f"--trace={path}"]) == 0
    assert (tmp_path / "other").read_text() == "of the user"
    assert command.main([*argv, f"--trace={path}/in/no/folder"]) == 2
  finally:
    run.stop()
    run.wait()
    with pytest.raises(urllib.error.HTTPError, match="503"):
      read_metrics(server.url)
    server.close()
  text = capsys.readouterr().out  # the run's lines, too
  times = json.loads(text[text.index("{") : text.rindex("}") + 1])
  assert {*times} == {*wanted}
  for name, seen in wanted.items():
    assert seen <= {*times[name]["steps"]}
  assert times["launcher" if mode == "single" else "worker/0"]["cpu_cores"] > 0
  events = json.loads(path.read_text())["traceEvents"]
  named = {x["args"]["name"] for x in events if x.get("name") == "process_name"}
  assert named == {*wanted}
  assert (run.folder / "profile.svg").read_text().startswith("<svg")
  # A run that has ended has no processes.
  capsys.readouterr()
  assert command.main(argv) == 1
  errors.check_printed(capsys, "has ended")


@pytest.mark.parametrize(
  ("arguments", "part"),
  [
    ([], "0 runs are given"),
    (["a", "b"], "2 runs are given"),
    (["a", "--seconds=0"], "--seconds=0"),
    (["a", "--trace=no/such/file"], "no/such/file"),
    (["a", "--seconds=600", "--samples_per_s=1000"], "100,000 samples"),
    (["no-run"], "no-run"),
  ],
)
def test_a_wrong_command_is_rejected(arguments, part, capsys):
  assert command.main(["slipway profile", *arguments]) == 2
  errors.check_printed(capsys, part)


def test_a_port_in_use_is_rejected():
  first = prometheus.Server(0)
  try:
    with errors.one_line(f"={first.server_port}", "in use", error=OSError):
      prometheus.Server(first.server_port)
  finally:
    first.close()


def test_a_profile_ends_with_its_run(tmp_path, capsys):
  config = slipway.load_config("dqn:cartpole")
  config.limits.target_return = float("inf")
  run = slipway.start(config, name="a-run", run_dir=tmp_path, mode="single")
  stop = threading.Timer(1.0, run.stop)
  try:
    polling.wait_until(lambda: run.status().trainer_steps > 0)
    stop.start()
    argv = ["slipway profile", str(run.folder), "--seconds=600"]
    assert command.main(argv) == 1
    assert "has ended" in capsys.readouterr().err
  finally:
    run.stop()
    run.wait()
