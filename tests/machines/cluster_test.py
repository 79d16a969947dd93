"""Ray on several hosts: who may join, and what is left of what has died."""

import sys
import time

import pytest

from tests.machines import hosts

pytestmark = pytest.mark.machines

_START = "launch/clusters/start.sh"
_NOTICED_S = 30.0
_LEFT_S = 70.0


class Driver:
  """tests/machines/driver.py, on a host of a cluster."""

  def __init__(self, cluster, host, folder):
    """Starts it, and waits until its actors are up.

    Args:
      cluster: on each of whose hosts it has an actor.
      host: to start it on.
      folder: of the test.
    """
    self._said = folder / "driver"
    self.process = host.start(
      [sys.executable, "-m", "tests.machines.driver", cluster.address],
      stdout=self._said,
      env=cluster.environment,
    )
    hosts.wait_until(lambda: self.alive() == _addresses(cluster.hosts), 60)

  def alive(self):
    """Addresses of the hosts that are alive to Ray; none until it is up."""
    lines = self._said.read_text().splitlines()
    return ([[]] + [each.split() for each in lines if each[:3] == "10."])[-1]


def _addresses(some):
  return [host.address for host in some]


def _tied(some):
  """Children of a driver's actors on some hosts that the kernel ends."""
  return [process for host in some for process in host.processes("sleep 2222")]


def _untied(some):
  """Those that it does not."""
  return [process for host in some for process in host.processes("sleep 1111")]


def _lose_power(host):
  host.cut()
  host.kill()


def test_a_host_that_joins_is_seen(cluster, tmp_path):
  driver = Driver(cluster, cluster.hosts[1], tmp_path)
  assert len(_tied(cluster.hosts)) == len(_untied(cluster.hosts)) == 3
  cluster.add()
  hosts.wait_until(lambda: driver.alive() == _addresses(cluster.hosts), 30)


def test_hosts_that_are_gone_are_noticed(start_cluster, tmp_path):
  cluster = start_cluster(5)
  driver = Driver(cluster, cluster.head, tmp_path)
  stay, (killed, powerless, cut) = cluster.hosts[:2], cluster.hosts[2:]
  killed.kill()
  _lose_power(powerless)
  cut.cut()
  took_s = hosts.wait_until(
    lambda: driver.alive() == _addresses(stay), _NOTICED_S
  )
  print(f"noticed after {took_s:.1f} s")
  assert len(_tied(stay)) == 2
  left_s = hosts.wait_until(lambda: not _tied([cut]), _LEFT_S - took_s)
  print(f"nothing on the one that was cut off after {took_s + left_s:.1f} s")
  cut.mend()
  time.sleep(5.0)
  # Its Ray has ended: it is to be started again.
  assert driver.alive() == _addresses(stay)


def test_a_cable_that_is_soon_mended_costs_nothing(cluster, tmp_path):
  driver = Driver(cluster, cluster.hosts[1], tmp_path)
  children = _tied(cluster.hosts)
  cluster.hosts[2].cut()
  time.sleep(5.0)
  cluster.hosts[2].mend()
  time.sleep(25.0)
  assert driver.alive() == _addresses(cluster.hosts)
  assert _tied(cluster.hosts) == children


def test_a_killed_driver_leaves_nothing(cluster, tmp_path):
  driver = Driver(cluster, cluster.hosts[1], tmp_path)
  driver.process.kill()
  took_s = hosts.wait_until(
    lambda: not _tied(cluster.hosts) + _untied(cluster.hosts), _LEFT_S
  )
  print(f"nothing of the driver's after {took_s:.1f} s")


def test_a_driver_whose_host_lost_power_leaves_nothing(cluster, tmp_path):
  Driver(cluster, cluster.hosts[1], tmp_path)
  _lose_power(cluster.hosts[1])
  took_s = hosts.wait_until(
    lambda: not _tied(cluster.hosts) + _untied(cluster.hosts), _LEFT_S
  )
  print(f"nothing of the driver's after {took_s:.1f} s")


@pytest.mark.parametrize("power", ["killed", "lost"])
def test_a_dead_head_leaves_nothing_that_is_tied(cluster, tmp_path, power):
  Driver(cluster, cluster.hosts[1], tmp_path)
  left = cluster.hosts[1:]
  if power == "lost":
    cluster.head.cut()
  cluster.head.kill()
  took_s = hosts.wait_until(lambda: not _tied(left), _LEFT_S)
  # Of the others Ray ends some: why those of a run have to be tied.
  print(f"{power}: {took_s:.1f} s, {len(_untied(left))} of 2 untied are left")


def _tries_to_end_ray(address):
  """The call without what it must have that ends a Ray that it reaches."""
  call = "/ray.rpc.syncer.RaySyncer/StartSync"
  return f"""
import grpc
with grpc.insecure_channel({address!r}) as channel:
  try:
    print(list(channel.stream_stream({call!r})(iter([b""]), timeout=5.0)))
  except grpc.RpcError as error:
    print(error.code().name)
"""


def test_a_stranger_ends_nothing(start_cluster, tmp_path):
  cluster = start_cluster(2)
  driver = Driver(cluster, cluster.head, tmp_path)
  stranger = cluster.network.add("stranger", shared=False)
  for host in cluster.hosts:
    for port in _ports(host):
      tried = _tries_to_end_ray(f"{host.address}:{port}")
      said = stranger.run([sys.executable, "-c", tried]).stdout
      assert said == "UNAVAILABLE\n", port
  time.sleep(5.0)
  assert driver.alive() == _addresses(cluster.hosts)
  assert driver.process.poll() is None


_ASK = """
import http.client, sys
for port in sys.argv[2:]:
  server = http.client.HTTPConnection(sys.argv[1], int(port), timeout=5)
  try:
    server.request("GET", "/metrics")
    print(port, server.getresponse().status)
  except (OSError, http.client.HTTPException) as error:
    print(port, type(error).__name__)
"""


def _ports(host):
  """Those that listen on a host, on other addresses than loopback's."""
  sockets = host.run(["ss", "-Htln"]).stdout.splitlines()
  addresses = {line.split()[3] for line in sockets}
  return sorted({a.rpartition(":")[2] for a in addresses if "127.0" not in a})


def test_no_door_of_a_host_answers_a_stranger(start_cluster):
  cluster = start_cluster(2)
  stranger = cluster.network.add("stranger", shared=False)
  for host in cluster.hosts:
    asked = stranger.run(
      [sys.executable, "-c", _ASK, host.address, *_ports(host)]
    )
    answers = dict(line.split() for line in asked.stdout.splitlines())
    # 401, or it wants a certificate.
    assert len(answers) > 4
    assert set(answers.values()) == {"401", "RemoteDisconnected"}, answers


def test_an_unsafe_token_is_refused_in_one_line(network):
  host = network.add("host")
  token = network.shared / "token"

  def refused():
    run = host.run(
      [_START, "head"], env={"RAY_AUTH_TOKEN_PATH": str(token)}, check=False
    )
    assert (run.returncode, run.stdout) == (1, "")
    (line,) = run.stderr.splitlines()
    assert str(token) in line
    return line

  assert "get-auth-token --generate" in refused()
  token.touch(mode=0o600)
  assert "is empty" in refused()
  token.write_text("a")
  token.chmod(0o640)
  assert "chmod 600" in refused()
  assert host.processes() == []
