"""Hosts, and clusters of Ray on them, which end with the test."""

import pathlib
import secrets

import pytest

from slipway.launch.machines import authority
from tests.machines import hosts

_START = pathlib.Path(__file__).parents[2] / "launch" / "clusters" / "start.sh"
_PORT = 6379
# Flags of `ray start`. They leave out what no test needs, since several hosts
# share a core.
_FEW = ("--num-cpus=2", "--include-log-monitor=false")


class Cluster:
  """A cluster of Ray on several hosts, which requires a token and certificates.

  Attributes:
    network: network of the hosts; its other hosts have neither.
    hosts: hosts with Ray: the head, then all others, including dead ones.
    token_path: path of the token's file, in the folder that the hosts share.
    environment: environment variables that a driver needs.
  """

  def __init__(self, network: hosts.Network, start: pathlib.Path = _START):
    """Starts the head.

    Args:
      network: network to which the hosts are added.
      start: the script that starts Ray on a host.
    """
    self.network, self._script = network, start
    self.hosts: list[hosts.Host] = []
    self.token_path = network.shared / "token"
    self.token_path.touch(mode=0o600)
    self.token_path.write_text(secrets.token_hex(16))
    self.environment = {"RAY_AUTH_TOKEN_PATH": str(self.token_path)}
    self._authority = authority.Authority(network.shared / "certificates")
    self._add("head", f"--port={_PORT}", "--no-monitor")

  @property
  def head(self) -> hosts.Host:
    return self.hosts[0]

  @property
  def address(self) -> str:
    """Address of Ray's head, as HOST:PORT."""
    return f"{self.head.address}:{_PORT}"

  def add(self, *flags: str) -> hosts.Host:
    """Starts another host, and returns it once it has joined.

    Args:
      *flags: flags of `ray start`, such as "--num-cpus=4".
    """
    return self._add("join", self.address, *flags)

  def rejoin(self, host: hosts.Host) -> None:
    """Starts Ray again on a host where it has ended."""
    self._start(host, "join", self.address)

  def _add(self, *command: str) -> hosts.Host:
    host = self.network.add(f"machine{len(self.hosts)}")
    folder = pathlib.Path(self._authority.issue([host.address]).key).parent
    host.run(["sh", "-c", f"mkdir ~/.ray && cp -r {folder} ~/.ray/tls"])
    self._start(host, *command)
    self.hosts.append(host)
    return host

  def _start(self, host: hosts.Host, *command: str) -> None:
    here = f"--node-ip-address={host.address}"
    host.run(
      [str(self._script), *command[:2], here, *_FEW, *command[2:]],
      env=self.environment,
      timeout_s=100,
    )


@pytest.fixture
def network(tmp_path):
  """Yields a network without hosts."""
  if obstacle := hosts.find_obstacle():
    pytest.skip(obstacle)
  created = hosts.Network(tmp_path)
  yield created
  created.close()


@pytest.fixture
def start_cluster(network):
  """Returns a function that starts Ray on `count` hosts, including the head."""

  def start(count, **options):
    cluster = Cluster(network, **options)
    for _ in range(count - 1):
      cluster.add()
    return cluster

  return start


@pytest.fixture
def cluster(start_cluster):
  """Starts Ray on three hosts; returns the cluster."""
  return start_cluster(3)
