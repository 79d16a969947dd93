"""Ray on several hosts: admission to a cluster, and what failures leave."""

import sys
import time

import pytest

from tests.machines import hosts

pytestmark = pytest.mark.machines

_START = "launch/clusters/start.sh"
_NOTICE_S = 30.0  # seconds within which Ray must notice that a host is down
_CLEANUP_S = 70.0  # seconds within which processes must have ended


class Driver:
  """A process of tests/machines/driver.py on a host of a cluster."""

  def __init__(self, cluster, host, folder):
    """Starts the driver, and waits until its actors are up.

    Args:
      cluster: cluster of Ray; the driver has an actor on each of its hosts.
      host: host on which the driver is started.
      folder: folder of the test.
    """
    self._output = folder / "driver"
    self.process = host.start(
      [sys.executable, "-m", "tests.machines.driver", cluster.address],
      stdout=self._output,
      env=cluster.environment,
    )
    hosts.wait_until(lambda: self.alive() == _addresses(cluster.hosts), 60)

  def alive(self):
    """Returns the addresses of the hosts that Ray considers alive.

    There are none until the driver is up.
    """
    lines = self._output.read_text().splitlines()
    return ([[]] + [each.split() for each in lines if each[:3] == "10."])[-1]


def _addresses(members):
  return [host.address for host in members]


def _tied(members):
  """Returns the actors' children on the given hosts that end with an actor."""
  return [
    process for host in members for process in host.processes("sleep 2222")
  ]


def _untied(members):
  """Returns the actors' children that the kernel doesn't end with an actor."""
  return [
    process for host in members for process in host.processes("sleep 1111")
  ]


def _lose_power(host):
  host.cut()
  host.kill()


def test_a_wait_without_pending_calls_does_not_return_at_once():
  from slipway.launch.machines import cluster as cluster_lib  # loads Ray

  begun_s = time.monotonic()
  cluster_lib.wait([], timeout_s=60.0)
  cluster_lib.wait([], timeout_s=0.0)
  assert 0.04 < time.monotonic() - begun_s < 30.0


def test_a_host_that_joins_is_seen(cluster, tmp_path):
  driver = Driver(cluster, cluster.hosts[1], tmp_path)
  assert len(_tied(cluster.hosts)) == len(_untied(cluster.hosts)) == 3
  cluster.add()
  hosts.wait_until(lambda: driver.alive() == _addresses(cluster.hosts), 30)


def test_hosts_that_fail_are_noticed(start_cluster, tmp_path):
  cluster = start_cluster(5)
  driver = Driver(cluster, cluster.head, tmp_path)
  stay, (killed, powerless, cut) = cluster.hosts[:2], cluster.hosts[2:]
  killed.kill()
  _lose_power(powerless)
  cut.cut()
  took_s = hosts.wait_until(
    lambda: driver.alive() == _addresses(stay), _NOTICE_S
  )
  print(f"noticed after {took_s:.1f} s")
  assert len(_tied(stay)) == 2
  cleanup_s = hosts.wait_until(lambda: not _tied([cut]), _CLEANUP_S - took_s)
  print(f"nothing on the one that was cut off after {took_s + cleanup_s:.1f} s")
  cut.reconnect()
  time.sleep(5.0)
  # Ray has ended on the host that was cut off, and must be started again.
  assert driver.alive() == _addresses(stay)


def test_a_cable_that_is_soon_reconnected_has_no_effect(cluster, tmp_path):
  driver = Driver(cluster, cluster.hosts[1], tmp_path)
  children = _tied(cluster.hosts)
  cluster.hosts[2].cut()
  time.sleep(5.0)
  cluster.hosts[2].reconnect()
  time.sleep(25.0)
  assert driver.alive() == _addresses(cluster.hosts)
  assert _tied(cluster.hosts) == children


def test_a_killed_driver_leaves_nothing(cluster, tmp_path):
  driver = Driver(cluster, cluster.hosts[1], tmp_path)
  driver.process.kill()
  took_s = hosts.wait_until(
    lambda: not _tied(cluster.hosts) + _untied(cluster.hosts), _CLEANUP_S
  )
  print(f"nothing of the driver's after {took_s:.1f} s")


def test_a_driver_whose_host_lost_power_leaves_nothing(cluster, tmp_path):
  Driver(cluster, cluster.hosts[1], tmp_path)
  _lose_power(cluster.hosts[1])
  took_s = hosts.wait_until(
    lambda: not _tied(cluster.hosts) + _untied(cluster.hosts), _CLEANUP_S
  )
  print(f"nothing of the driver's after {took_s:.1f} s")


@pytest.mark.parametrize("power", ["killed", "lost"])
def test_a_dead_head_leaves_nothing_that_is_tied(cluster, tmp_path, power):
  Driver(cluster, cluster.hosts[1], tmp_path)
  left = cluster.hosts[1:]
  if power == "lost":
    cluster.head.cut()
  cluster.head.kill()
  took_s = hosts.wait_until(lambda: not _tied(left), _CLEANUP_S)
  # Ray ends only some of the others, so a run's processes have to be tied.
  print(f"{power}: {took_s:.1f} s, {len(_untied(left))} of 2 untied are left")


def _make_bad_call(address):
  """Returns a program whose call lacks required metadata.

  The call terminates a Ray process that it reaches.
  """
  call = "/ray.rpc.syncer.RaySyncer/StartSync"
  return f"""
import grpc
with grpc.insecure_channel({address!r}) as channel:
  try:
    print(list(channel.stream_stream({call!r})(iter([b""]), timeout=5.0)))
  except grpc.RpcError as error:
    print(error.code().name)
"""


def test_an_unauthenticated_peer_cannot_end_ray(start_cluster, tmp_path):
  cluster = start_cluster(2)
  driver = Driver(cluster, cluster.head, tmp_path)
  peer = cluster.network.add("stranger", shared=False)
  for host in cluster.hosts:
    for port in _ports(host):
      program = _make_bad_call(f"{host.address}:{port}")
      reply = peer.run([sys.executable, "-c", program]).stdout
      assert reply == "UNAVAILABLE\n", port
  time.sleep(5.0)
  assert driver.alive() == _addresses(cluster.hosts)
  assert driver.process.poll() is None


_REQUEST = """
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
  """Returns the ports on which a host listens, except for loopback's."""
  sockets = host.run(["ss", "-Htln"]).stdout.splitlines()
  addresses = {line.split()[3] for line in sockets}
  return sorted({a.rpartition(":")[2] for a in addresses if "127.0" not in a})


def test_no_port_of_a_host_serves_an_unauthenticated_peer(start_cluster):
  cluster = start_cluster(2)
  peer = cluster.network.add("stranger", shared=False)
  for host in cluster.hosts:
    done = peer.run(
      [sys.executable, "-c", _REQUEST, host.address, *_ports(host)]
    )
    replies = dict(line.split() for line in done.stdout.splitlines())
    # Some servers reply 401, the others require a client certificate.
    assert len(replies) > 4
    assert set(replies.values()) == {"401", "RemoteDisconnected"}, replies


def test_an_unsafe_token_is_rejected_in_one_line(network):
  host = network.add("host")
  token = network.shared / "token"

  def get_error():
    run = host.run(
      [_START, "head"], env={"RAY_AUTH_TOKEN_PATH": str(token)}, check=False
    )
    assert (run.returncode, run.stdout) == (1, "")
    (line,) = run.stderr.splitlines()
    assert str(token) in line
    return line

  assert "get-auth-token --generate" in get_error()
  token.touch(mode=0o600)
  assert "is empty" in get_error()
  token.write_text("a")
  token.chmod(0o640)
  assert "chmod 600" in get_error()
  assert host.processes() == []
