"""Tests of the metrics for Prometheus, which its own library parses."""

import socket
import struct
import urllib.error
import urllib.request

import pytest
from prometheus_client import parser

from slipway.launch.commands import prometheus
from slipway.launch.runs import machine_usage, run_folder, run_status

USAGE = machine_usage.MachineUsage(
  cores=2,
  gpus={0: machine_usage.GpuUsage(0.5)},
  processes={"worker/0": machine_usage.ProcessUsage(0.9, 4096)},
)


def parse(status):
  """Returns the values by name and labels, and the types by name."""
  families = list(
    parser.text_string_to_metric_families(prometheus.to_text(status))
  )
  values = {
    (sample.name, *sorted(sample.labels.items())): sample.value
    for family in families
    for sample in family.samples
  }
  assert len(values) == sum(len(family.samples) for family in families)
  return values, {family.name: family.type for family in families}


def test_names_have_units_and_types():
  run = ("run", "first")
  status = run_status.RunStatus(
    name="first",
    env_steps=123_456,
    wall_s=83.4,
    rates=run_status.RatesStatus(3217.7, 4000.0),
    replay=run_status.ReplayStatus(42_310),
    evaluation=run_status.EvaluationStatus(episodes=20),
    nodes={"worker": run_status.NodesStatus(3, 4)},
    learner={"loss": 0.5, "lr per step": 1.0, "nan": float("nan")},
    workers={1: run_status.WorkerStatus(env_steps=7)},
    monitors={"home": USAGE},
  )
  values, types = parse(status)
  home = ("machine", "home")
  expected = {
    ("slipway_env_steps_total", run): 123_456,
    ("slipway_env_steps_per_second", run): 3217.7,
    ("slipway_env_steps_per_second_target", run): 4000.0,
    ("slipway_wall_seconds", run): 83.4,
    ("slipway_replay_size", run): 42_310,
    ("slipway_evaluation_episodes", run): 20,
    ("slipway_nodes_up", ("role", "worker"), run): 3,
    ("slipway_learner_loss", run): 0.5,
    ("slipway_learner_lr_per_step", run): 1.0,
    ("slipway_worker_env_steps_total", run, ("worker", "1")): 7,
    ("slipway_machine_cores", home, run): 2,
    ("slipway_gpu_utilization", ("gpu", "0"), home, run): 0.5,
    ("slipway_process_memory_bytes", home, ("process", "worker/0"), run): 4096,
  }
  assert expected.items() <= values.items()
  assert ("slipway_learner_nan", run) not in values
  assert not any("limits" in name for name, *_ in values)
  assert types["slipway_env_steps"] == "counter"
  assert types["slipway_replay_size"] == "gauge"


def test_a_name_of_the_run_is_quoted():
  values, _ = parse(run_status.RunStatus(name='a "name" \\ with\nlines'))
  labels = {dict(labels)["run"] for _, *labels in values}
  assert labels == {'a "name" \\ with\nlines'}


def test_clients_that_leave_early_print_nothing(tmp_path, capsys):
  server = prometheus.Server(0)
  server.start(run_folder.RunFolder(tmp_path))
  address = server.server_address
  for _ in range(10):
    with socket.create_connection(address) as client:
      # The connection is reset, as by the timeout of a scrape.
      reset = struct.pack("ii", 1, 0)
      client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, reset)
      client.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
  with pytest.raises(urllib.error.HTTPError, match="503"):  # no run is active
    urllib.request.urlopen(server.url)
  server.close()
  assert capsys.readouterr().err == ""
