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
  assert rejected >= 3 * len(offered)
  run.wait_for_steps()
  assert run.stop() == 0, run.output


def test_a_cluster_without_tls_needs_a_flag(start_cluster, monkeypatch):
  monkeypatch.setenv("RAY_USE_TLS", "0")
  cluster = start_cluster(2)
  output = runs.get_rejection(
    cluster.head, cluster.address, **cluster.environment
  )
  assert "no certificate" in output and "--insecure" in output
  output = runs.get_rejection(
    cluster.head, cluster.address, **cluster.environment, RAY_USE_TLS=""
  )
  assert "uses no TLS" in output  # it has certificates in ~/.ray/tls
  run = runs.MachineRun(cluster, *runs.ENDLESS, "--insecure")
  run.wait_for_workers(2, 2)
  run.wait_for_steps()
  assert run.stop() == 0, run.output


def test_a_host_without_credentials_is_rejected(start_cluster):
  cluster = start_cluster(1)
  peer = cluster.network.add("stranger", shared=False)
  output = runs.get_rejection(peer, cluster.address)
  assert "no certificate" in output and "slipway certificates" in output
  output = runs.get_rejection(peer, cluster.address, "--insecure")
  assert "requires a certificate" in output
  make = ["-m", "slipway.launch.commands.cli", "certificates", "/tmp/made"]
  peer.run([sys.executable, *make, f"--hosts={peer.address}"])
  names = {"CERT": "certificate", "KEY": "key", "CA_CERT": "authority"}
  files = {
    f"RAY_TLS_{'' if x == 'CA_CERT' else 'SERVER_'}{x}": (
      f"/tmp/made/{peer.address}/{file}.pem"
    )
    for x, file in names.items()
  }
  output = runs.get_rejection(peer, cluster.address, RAY_USE_TLS="1", **files)
  assert "does not accept" in output
  assert "Connection refused" in runs.get_rejection(
    peer, f"{cluster.head.address}:7777", RAY_USE_TLS="1", **files
  )
  output = runs.get_rejection(peer, cluster.address, RAY_USE_TLS="1")
  assert "RAY_TLS_SERVER_CERT and RAY_TLS_SERVER_KEY" in output


def test_a_token_is_needed_besides_a_certificate(start_cluster):
  cluster = start_cluster(1)
  output = runs.get_rejection(cluster.head, cluster.address)
  assert "no authentication token" in output and "~/.ray/auth_token" in output
