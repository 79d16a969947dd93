"""Tests of the server for Prometheus, whose own library reads its replies."""

import contextlib
import socket
import struct
import urllib.request

import pytest
from prometheus_client import parser

from slipway.launch.api import running
from slipway.launch.commands import prometheus
from slipway.launch.runs import machine_usage, run_folder, run_status
from tests.launch import errors

USAGE = machine_usage.MachineUsage(
  cores=2,
  gpus={0: machine_usage.GpuUsage(0.5)},
  processes={"worker/0": machine_usage.ProcessUsage(0.9, 4096)},
)


@pytest.fixture
def server(tmp_path):
  """Returns a server of a run that is not active."""
  made = prometheus.Server(0)
  made.folder = run_folder.RunFolder(tmp_path)
  yield made
  made.close()


def read(url):
  """Returns the values that Prometheus would read, by name and labels."""
  with urllib.request.urlopen(url, timeout=10) as reply:
    text = reply.read().decode()
  return {
    (sample.name, sample.labels["run"], sample.labels["section"]): sample.value
    for family in parser.text_string_to_metric_families(text)
    for sample in family.samples
  }


def test_the_numbers_of_a_status_are_served(server, monkeypatch):
  status = run_status.RunStatus(
    name='a "name" \\ with\nlines',
    env_steps=123_456,
    evaluation=run_status.EvaluationStatus(mean_return=-4.5, episodes=20),
    nodes={"worker": run_status.NodesStatus(3, 4)},
    learner={"loss": 0.5, "lr per step": 1.0, "nan": float("nan")},
    workers={1: run_status.WorkerStatus(env_steps=7)},
    monitors={"home": USAGE},
  )

  class Control:
    def status(self):
      return status

  monkeypatch.setattr(
    running, "connect", lambda _: contextlib.nullcontext(Control())
  )
  values = read(server.url)
  assert {run for _, run, _ in values} == {status.name}
  found = {(name, section): x for (name, _, section), x in values.items()}
  expected = {
    ("slipway_env_steps", "run"): 123_456,
    ("slipway_env_steps", "workers/1"): 7,
    ("slipway_mean_return", "evaluation"): -4.5,
    ("slipway_up", "nodes/worker"): 3,
    ("slipway_loss", "learner"): 0.5,
    ("slipway_lr_per_step", "learner"): 1.0,
    ("slipway_cores", "monitors/home"): 2,
    ("slipway_utilization", "monitors/home/gpus/0"): 0.5,
    ("slipway_memory_bytes", "monitors/home/processes/worker/0"): 4096,
  }
  assert expected.items() <= found.items()
  assert ("slipway_nan", "learner") not in found


def test_a_run_that_does_not_reply_has_no_metrics(server):
  assert read(server.url) == {}


def test_clients_that_leave_early_print_nothing(server, capsys):
  address = ("127.0.0.1", int(server.url.split(":")[2].split("/")[0]))
  for _ in range(10):
    with socket.create_connection(address) as client:
      # The connection is reset, as by the timeout of a scrape.
      reset = struct.pack("ii", 1, 0)
      client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, reset)
      client.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
  assert read(server.url) == {}
  assert capsys.readouterr().err == ""


def test_a_port_in_use_is_rejected(server):
  port = server.url.split(":")[2].split("/")[0]
  with errors.one_line(f"={port}", "in use", error=OSError):
    prometheus.Server(int(port))
