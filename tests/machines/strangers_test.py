"""Strangers: unauthenticated peers that know a run's addresses."""

import json
import re
import sys

import pytest

from tests.machines import runs

pytestmark = [pytest.mark.machines, pytest.mark.timeout(400)]


def listening(host):
  """Returns the ports on which a host listens, except for loopback's."""
  output = host.run(["cat", "/proc/net/tcp", "/proc/net/tcp6"]).stdout
  found = re.findall(r"^ *\d+: ([0-9A-F]+):([0-9A-F]+) \S+ 0A", output, re.M)
  own = ("0100007F", "00000000000000000000000001000000")
  return {int(port, 16) for address, port in found if address not in own}


def attempt_accesses(host, addresses):
  """Attempts all accesses from a host; returns the replies by address."""
  output = host.run(
    [sys.executable, "-m", "tests.machines.stranger", *addresses],
    timeout_s=200.0,
  )
  return json.loads(output.stdout.splitlines()[-1])


def test_an_unauthenticated_peer_gets_nothing_and_is_counted(cluster):
  run = runs.MachineRun(cluster)
  run.wait_for_workers(4, 4)
  offered = set(re.findall(r"is at (\S+:\d+)", run.supervisor_log))
  assert len(offered) == 2  # control and replay
  peer = cluster.network.add("stranger", shared=False)
  addresses = [
    f"{host.address}:{port}"
    for host in cluster.hosts
    for port in listening(host)
  ]
  assert offered < set(addresses)
  for address, got in attempt_accesses(peer, addresses).items():
    # Some ports of Ray reply in plaintext HTTP that they require its token.
    texts = [*got.pop("_connect", []), *got.pop("_request_status", [])]
    replies = [bytes.fromhex(text) for text in texts]
    assert not got, address
    assert all(re.match(rb"HTTP/1\.[01] 40", s) for s in replies), (
      address,
      replies,
    )
    assert not replies or address not in offered
  rejected = run.status()["machines"]["home"]["connections_refused"]
  assert rejected >= 2 * len(offered)
  run.wait_for_steps()
  assert run.stop() == 0, run.output


def test_a_run_without_certificates_needs_a_flag(cluster):
  run = runs.MachineRun(cluster, *runs.ENDLESS, "--insecure")
  run.wait_for_workers(4, 4)
  run.wait_for_steps()
  assert run.stop() == 0, run.output


def test_a_cluster_without_authentication_is_rejected(network):
  host = network.add("open")
  open_settings = {"RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0"}
  host.run(
    [sys.executable, "-m", "ray.scripts.scripts", "start", "--head"]
    + ["--port=6379", f"--node-ip-address={host.address}"]
    + ["--include-dashboard=false", "--object-store-memory=80000000"],
    env=open_settings,
    timeout_s=100.0,
  )
  output = runs.get_rejection(host, f"{host.address}:6379", **open_settings)
  assert "requires no token" in output
  assert "--insecure" in output


def test_a_host_without_the_token_is_rejected(start_cluster):
  cluster = start_cluster(1)
  peer = cluster.network.add("stranger", shared=False)
  output = runs.get_rejection(peer, cluster.address)
  assert "has no token in ~/.ray/auth_token" in output
  output = runs.get_rejection(peer, cluster.address, RAY_AUTH_TOKEN="0" * 32)
  assert "has a certificate" in output
  assert "copy the cluster's token" in output
  assert "Connection refused" in runs.get_rejection(
    peer, f"{cluster.head.address}:7777", RAY_AUTH_TOKEN="0" * 32
  )
  output = runs.get_rejection(peer, cluster.address, RAY_USE_TLS="1")
  assert "RAY_TLS_CA_CERT and RAY_TLS_SERVER_KEY" in output
  names = ("RAY_TLS_CA_CERT", "RAY_TLS_SERVER_KEY", "RAY_TLS_SERVER_CERT")
  files = dict.fromkeys(names, __file__)
  output = runs.get_rejection(peer, cluster.address, RAY_USE_TLS="1", **files)
  assert "are not an authority" in output


def test_a_plaintext_cluster_is_accepted_only_with_a_variable(
  start_cluster, monkeypatch
):
  with monkeypatch.context() as patch:
    patch.setenv("RAY_USE_TLS", "0")
    cluster = start_cluster(1)
  head, token = cluster.head, cluster.environment
  output = runs.get_rejection(head, cluster.address, **token)
  assert "RAY_USE_TLS=0" in output
  # The cluster is accepted, but has too few machines.
  output = runs.get_rejection(head, cluster.address, **token, RAY_USE_TLS="0")
  assert "needs 2 machines" in output
