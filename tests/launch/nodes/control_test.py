"""The control node: bytes in, bytes out, and what it rejects."""

import time

import pytest

from configs import dqn
from environments import factory
from launch.nodes import control as control_lib
from launch.nodes import control_client
from launch.orchestration import messages
from launch.runs import run_folder, run_status


@pytest.fixture
def node(tmp_path):
  config = dqn.get_config()
  folder = run_folder.RunFolder.create(tmp_path, "a-run", overwrite=False)
  folder.write_config(config)
  expected = {"worker": 2, "trainer": 1}
  spec = factory.make_spec(config.environment)
  return control_lib.Control(config, spec, folder, expected, time.time())


def test_a_client_has_types(node):
  client = control_client.ControlClient(node)
  report = messages.WorkerReport(1.0, env_steps=7, collected_version=3)
  assert client.report("worker", 0, report) == messages.Command(workers=2)
  assert client.register("worker", 0) == messages.Registration(1, 7)
  assert client.status().env_steps == 7
  assert client.wait_collected(3, 0.0) == 0
  client.finished("worker", 1, report)
  assert client.status().nodes["worker"] == run_status.NodesStatus(1, 2)
  assert client.counters().environment_steps == 14
  assert client.variables_version() == 0
  assert client.evaluated(messages.Evaluation([1.0, 3.0], [4, 5], 1))
  assert client.status().evaluation.mean_return == 2.0
  machines = {"home": run_status.MachineStatus("a", True)}
  expected = {"worker": 2, "proxy": 1, "trainer": 1}
  client.place(messages.Placement(machines, expected, []))
  assert client.status().machines == machines
  assert client.pause() == "" and client.status().phase == "paused"
  assert client.resume() == client.save() == ""
  assert client.set("limits.trainer_steps", 9) == ""
  client.stop("SIGINT")
  assert client.report("worker", 0, report).stop
  assert "stopping" in client.set_workers(3)


def test_threads_are_as_many_as_they_are(node):
  client = control_client.ControlClient(node)
  assert "--launch=local_mp" in client.set_workers(3)
  assert client.status().workers_target == 2


def test_a_bad_message_is_rejected_in_one_line(node, caplog):
  node.report("worker", 0, messages.encode(messages.WorkerReport(env_steps=7)))
  for _ in range(2):
    command = node.report("worker", 0, b"no report")
    assert messages.decode(command, messages.Command).workers == 2
  (line,) = caplog.messages
  assert "a message from worker 0 is rejected" in line
  assert "\n" not in line
  node.finished("worker", 0, b"")
  node.place(b"")
  assert not node.evaluated(b"no evaluation")
  status = control_client.ControlClient(node).status()
  assert status.env_steps == 7
  assert status.nodes["worker"].up == 1
  assert status.evaluation.count == 0
