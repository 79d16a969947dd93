"""Strangers: who knows a run's addresses, and has nothing to show."""

import json
import re
import sys

import pytest

from tests.machines import runs

pytestmark = [pytest.mark.machines, pytest.mark.timeout(400)]


def listening(host):
  """The ports of all interfaces on which a host listens."""
  said = host.run(["cat", "/proc/net/tcp", "/proc/net/tcp6"]).stdout
  found = re.findall(r"^ *\d+: ([0-9A-F]+):([0-9A-F]+) \S+ 0A", said, re.M)
  own = ("0100007F", "00000000000000000000000001000000")
  return {int(port, 16) for address, port in found if address not in own}


def tries(host, addresses):
  said = host.run(
    [sys.executable, "-m", "tests.machines.stranger", *addresses],
    timeout_s=200.0,
  )
  return json.loads(said.stdout.splitlines()[-1])


def test_a_stranger_gets_nothing_and_is_counted(cluster):
  run = runs.MachineRun(cluster)
  run.wait_for_workers(4, 4)
  offered = set(re.findall(r"is at (\S+:\d+)", run.supervisor_log))
  assert len(offered) == 2  # control and replay
  stranger = cluster.network.add("stranger", shared=False)
  doors = [
    f"{host.address}:{port}"
    for host in cluster.hosts
    for port in listening(host)
  ]
  assert offered < set(doors)
  for address, got in tries(stranger, doors).items():
    # Some of Ray's speak HTTP, and say in clear that they want its token.
    texts = [*got.pop("_greet", []), *got.pop("_call", [])]
    said = [bytes.fromhex(text) for text in texts]
    assert not got, address
    assert all(re.match(rb"HTTP/1\.[01] 40", s) for s in said), (address, said)
    assert not said or address not in offered
  refused = run.status()["machines"]["home"]["connections_refused"]
  assert refused >= 2 * len(offered)
  run.wait_for_steps()
  assert run.stop() == 0, run.said


def test_without_certificates_only_where_that_is_said(cluster):
  run = runs.MachineRun(cluster, *runs.ENDLESS, "--insecure")
  run.wait_for_workers(4, 4)
  run.wait_for_steps()
  assert run.stop() == 0, run.said


def test_a_cluster_that_answers_strangers_is_refused(network):
  host = network.add("open")
  open_doors = {"RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0"}
  host.run(
    [sys.executable, "-m", "ray.scripts.scripts", "start", "--head"]
    + ["--port=6379", f"--node-ip-address={host.address}"]
    + ["--include-dashboard=false", "--object-store-memory=80000000"],
    env=open_doors,
    timeout_s=100.0,
  )
  said = runs.refused(host, f"{host.address}:6379", **open_doors)
  assert "answers without a token" in said
  assert "--insecure" in said


def test_who_has_not_the_token_is_refused(start_cluster):
  cluster = start_cluster(1)
  stranger = cluster.network.add("stranger", shared=False)
  said = runs.refused(stranger, cluster.address)
  assert "has no token in ~/.ray/auth_token" in said
  said = runs.refused(stranger, cluster.address, RAY_AUTH_TOKEN="0" * 32)
  assert "shows a certificate that this machine's token does not" in said
  assert "Connection refused" in runs.refused(
    stranger, f"{cluster.head.address}:7777", RAY_AUTH_TOKEN="0" * 32
  )
  said = runs.refused(stranger, cluster.address, RAY_USE_TLS="1")
  assert "RAY_TLS_CA_CERT and RAY_TLS_SERVER_KEY" in said
  names = ("RAY_TLS_CA_CERT", "RAY_TLS_SERVER_KEY", "RAY_TLS_SERVER_CERT")
  files = dict.fromkeys(names, __file__)
  said = runs.refused(stranger, cluster.address, RAY_USE_TLS="1", **files)
  assert "are not an authority" in said


def test_a_cluster_in_clear_is_taken_only_where_that_is_said(
  start_cluster, monkeypatch
):
  with monkeypatch.context() as patch:
    patch.setenv("RAY_USE_TLS", "0")
    cluster = start_cluster(1)
  head, token = cluster.head, cluster.environment
  assert "speaks in clear" in runs.refused(head, cluster.address, **token)
  # It is taken, and found too small.
  said = runs.refused(head, cluster.address, **token, RAY_USE_TLS="0")
  assert "needs 2 machines" in said
