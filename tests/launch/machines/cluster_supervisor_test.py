"""Tests of the supervisor of a run's machines, with a stand-in for Ray."""

import types

import pytest

from slipway.configs import dqn
from slipway.environments import factory
from slipway.launch.machines import host_agent, placement
from slipway.launch.runs import run, run_folder
from tests.launch import fake_ray


@pytest.fixture(autouse=True)
def ray():
  with fake_ray.installed():
    yield


def test_logs_that_can_not_be_written_do_not_end_the_run(tmp_path):
  from slipway.launch.machines import cluster, cluster_supervisor  # loads Ray

  config = dqn.get_config()
  config.topology.machines = 1
  folder = run_folder.RunFolder.create(tmp_path, "a-run", overwrite=False)
  folder.logs.mkdir(exist_ok=True)
  (folder.logs / "worker").touch()  # a file in place of the folder
  report = host_agent.AgentReport(
    True, None, {"worker/0": b"1", "proxy/0": b"2"}, 0
  )
  actor = fake_ray.Actor(
    start=lambda expected, endpoints: host_agent.AgentServices(
      {host_agent.CONTROL: "10.0.0.1:1"}, None
    ),
    poll=lambda command: report,
    close=lambda: None,
  )
  machines = [
    placement.Machine(str(index), f"10.0.0.{index}", 64.0, 8.0, index == 1)
    for index in (1, 2)
  ]
  cluster_supervisor.ClusterSupervisor(
    run.Run(config, factory.make_spec(config.environment), folder, 0.0),
    types.SimpleNamespace(
      machines=lambda: machines,
      start=lambda machine, task: cluster.RemoteActor(actor),
    ),
    secure=False,
  ).run(lambda socket: None)
  assert (folder.logs / "proxy/0").read_bytes().startswith(b"2")
