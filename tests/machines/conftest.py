"""Hosts, and Ray on them, which go with the test."""

import importlib.util
import pathlib
import secrets

import pytest

from tests.machines import hosts

_START = pathlib.Path(__file__).parents[2] / "launch" / "clusters" / "start.sh"
_PORT = 6379
# Several hosts share a core: what no test asks for is left out.
_FEW = ("--num-cpus=2", "--include-log-monitor=false")


class Cluster:
  """Hosts with Ray on each, for all who have their token.

  Attributes:
    network: that they are on; its other hosts are strangers.
    hosts: those with Ray, the head first, dead ones too.
    token_path: of the token's file, in the folder that the hosts share.
    environment: the variables that a driver needs.
  """

  def __init__(self, network: hosts.Network):
    """Starts the head.

    Args:
      network: to add the hosts to.
    """
    self.network = network
    self.hosts: list[hosts.Host] = []
    self.token_path = network.shared / "token"
    self.token_path.touch(mode=0o600)
    self.token_path.write_text(secrets.token_hex(16))
    self.environment = {"RAY_AUTH_TOKEN_PATH": str(self.token_path)}
    self._add("head", f"--port={_PORT}", "--no-monitor")

  @property
  def head(self) -> hosts.Host:
    return self.hosts[0]

  @property
  def address(self) -> str:
    """Ray's, as HOST:PORT."""
    return f"{self.head.address}:{_PORT}"

  def add(self, *flags: str) -> hosts.Host:
    """Starts one more host, and returns it once it has joined.

    Args:
      flags: of `ray start`, such as "--num-cpus=4".
    """
    return self._add("join", self.address, *flags)

  def rejoin(self, host: hosts.Host) -> None:
    """Starts Ray again on a host where it has ended."""
    self._start(host, "join", self.address)

  def _add(self, *command: str) -> hosts.Host:
    host = self.network.add(f"machine{len(self.hosts)}")
    self._start(host, *command)
    self.hosts.append(host)
    return host

  def _start(self, host: hosts.Host, *command: str) -> None:
    here = f"--node-ip-address={host.address}"
    host.run(
      [str(_START), *command[:2], here, *_FEW, *command[2:]],
      env=self.environment,
      timeout_s=100,
    )


@pytest.fixture
def network(tmp_path):
  """A network without hosts."""
  if why := hosts.why_not():
    pytest.skip(why)
  made = hosts.Network(tmp_path)
  yield made
  made.close()


@pytest.fixture
def needs_ray():
  """Skips where Ray is not installed."""
  if not importlib.util.find_spec("ray"):
    pytest.skip("Ray is not installed here: `make test-machines` has it")


@pytest.fixture
def start_cluster(needs_ray, network):
  """Starts Ray on the given number of hosts, at least the head's."""

  def start(count):
    cluster = Cluster(network)
    for _ in range(count - 1):
      cluster.add()
    return cluster

  return start


@pytest.fixture
def cluster(start_cluster):
  """Ray on three hosts."""
  return start_cluster(3)
