"""Tests of a host agent that hosts a whole run and is polled without Ray."""

import contextlib
import os
import pathlib
import socket
import stat
import time
import types

import pytest

from slipway.configs import apex_dqn
from slipway.environments import factory
from slipway.launch.control import calls, control_service
from slipway.launch.machines import authority, host_agent, placement
from slipway.launch.runs import run as run_lib
from slipway.launch.runs import run_folder
from slipway.replay.transport import gateway
from tests import polling
from tests.launch import controlled


def make_config():
  config = apex_dqn.get_config()
  config.network.hidden_sizes = (16,)
  config.replay.min_size = 200
  config.topology.update({"home_workers": 1, "environments_per_worker": 4})
  config.limits.target_return = float("inf")
  return config


@pytest.fixture
def cluster(tmp_path, monkeypatch):
  """Gives this machine a certificate; returns the cluster's authority."""
  made = authority.Authority(tmp_path / "certificates")
  identity = made.issue(["home"])
  monkeypatch.setenv("RAY_USE_TLS", "1")
  monkeypatch.setenv("RAY_TLS_SERVER_CERT", identity.certificate)
  monkeypatch.setenv("RAY_TLS_SERVER_KEY", identity.key)
  monkeypatch.setenv("RAY_TLS_CA_CERT", identity.authority)
  return made


@pytest.fixture
def made(tmp_path, cluster):
  """Yields a whole run's agent, the numbers of its nodes, and its folder."""
  config = make_config()
  folder = run_folder.RunFolder.create(tmp_path, "a-run", overwrite=False)
  folder.write_config(config)
  placed = placement.Placement(config)
  machine = placement.Machine("0", "127.0.0.1", 8.0, 0.0, True)
  ((group, _),) = placed.fill([machine])
  spec = factory.make_spec(config.environment)
  run = run_lib.Run(config, spec, folder, time.time())
  expected = placed.expected
  memory_dir = tmp_path / "memory"
  memory_dir.mkdir()
  with controlled.controlled(run, expected, memory_dir) as controller:
    agent = host_agent.HostAgent(
      group,
      run,
      machine.host,
      secure=True,
      control_socket=controller.socket,
    )
    yield agent, expected, folder
    agent.close()


@pytest.fixture
def started(made):
  """Returns an agent that has started a whole run, its services and folder."""
  agent, expected, folder = made
  return agent, agent.poll(expected, {}, None, False).services, folder


@pytest.fixture
def clock(monkeypatch):
  """Returns the agent's simulated clock, which records the exit statuses."""
  clock = types.SimpleNamespace(now_s=100.0, exits=[], reads=0)

  def monotonic():
    clock.reads += 1
    return clock.now_s

  clock.monotonic = monotonic
  monkeypatch.setattr(host_agent, "time", clock)
  monkeypatch.setattr(host_agent, "_CHECK_PERIOD_S", 0.01)
  monkeypatch.setattr(os, "_exit", clock.exits.append)
  return clock


def keeps_running_for(clock, seconds):
  """Returns whether the agent still runs after some seconds without a call."""
  clock.now_s += seconds
  before = clock.reads
  # The agent's thread reads the clock again once a check has passed.
  polling.wait_until(lambda: clock.exits or clock.reads > before + 1)
  return not clock.exits


def ends_after(clock, seconds):
  """Returns whether the agent exits after some seconds without a call."""
  clock.now_s += seconds
  return polling.wait_until(lambda: clock.exits) == [1]


def poll_until(agent, wanted, last_stage=None):
  """Polls an agent until its report is as wanted; returns the report."""
  return polling.wait_until(
    lambda: agent.poll({}, {}, last_stage, False), wanted=wanted
  )


@pytest.mark.runs
def test_other_machines_reach_its_services(started, cluster, tmp_path):
  agent, services, folder = started
  assert set(services) == {"control", "replay"}
  # Another machine connects with its own identity.
  other_gateway = gateway.Gateway("127.0.0.1", cluster.issue(["other"]))
  address = other_gateway.reach(
    str(tmp_path / "control.sock"),
    lambda: services["control"],
    preface=b"",
  )
  control = calls.connect(
    control_service.ControlService, address.removeprefix("unix:")
  )
  learned = poll_until(agent, lambda _: steps_of(control) > 20)
  assert learned.failure is None
  assert not learned.ended
  assert learned.connections_refused == 0
  processes = {"launcher", "trainer/0", "worker/0", "proxy/0", "evaluator/0"}
  poll_until(agent, lambda x: {*x.usage.processes} == processes)
  # A peer without an identity is rejected.
  host, _, port = services["control"].rpartition(":")
  with socket.create_connection((host, int(port)), 5.0) as peer:
    peer.sendall(calls.pack("status", []))
    with contextlib.suppress(ConnectionResetError):
      assert peer.recv(1) == b""
  poll_until(agent, lambda report: report.connections_refused > 0)
  control.stop("a test")
  # The supervisor waits for the nodes of all machines.
  kept = poll_until(
    agent, lambda report: len(report.alive_roles) == 1, last_stage=0
  )
  assert kept.alive_roles == {"trainer"}
  ended = poll_until(agent, lambda report: report.ended, last_stage=2)
  assert ended.failure is None
  assert ended.logs == {}  # the driver host sends none
  assert (folder.logs / "worker" / "0").stat().st_size
  other_gateway.close()


def test_its_directory_is_private_and_is_removed(started):
  agent, *_ = started
  made = pathlib.Path(agent._memory_dir)
  assert stat.S_IMODE(made.stat().st_mode) == 0o700
  agent.close()
  assert not made.exists()


def test_an_agent_needs_a_valid_certificate(made, monkeypatch):
  agent, expected, _ = made
  monkeypatch.setenv("RAY_TLS_SERVER_KEY", __file__)
  with pytest.raises(ValueError, match="private key"):
    agent.poll(expected, {}, None, False)
  monkeypatch.setenv("RAY_USE_TLS", "0")
  with pytest.raises(ValueError, match="no TLS"):
    agent.poll(expected, {}, None, False)


@pytest.mark.runs
def test_a_stop_ends_all_nodes(started):
  agent, *_ = started
  agent.poll({}, {}, last_stage=2, is_quick=True)
  poll_until(agent, lambda report: report.ended)


def test_an_agent_that_is_never_started_ends(clock, made):
  assert keeps_running_for(clock, 119.0)
  assert ends_after(clock, 2.0)


def test_an_agent_that_is_not_polled_ends(clock, made):
  agent, expected, _ = made
  assert keeps_running_for(clock, 119.0)
  for _ in range(2):
    agent.poll(expected, {}, None, False)
    assert keeps_running_for(clock, 14.0)
  agent.poll(expected, {}, None, False)
  assert keeps_running_for(clock, 14.0)
  assert ends_after(clock, 2.0)


def steps_of(control):
  try:
    return control.status().trainer_steps
  except calls.UnreachableError:  # not started yet
    return 0
