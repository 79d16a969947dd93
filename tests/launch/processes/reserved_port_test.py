"""A reserved port: only the node's own server can take it."""

import pickle
import shutil
import socket
import subprocess
import sys

import portpicker
import pytest
import reverb

from slipway.launch.processes import service_node

_NETWORK = ("unshare", "--net", "sh", "-c")
# Of four ports, each of which is given to whoever wants any.
_FOUR = "echo 40000 40003 > /proc/sys/net/ipv4/ip_local_port_range"
_TAKEN = """
import contextlib, socket
from slipway.launch.processes import service_node

def taken(take):
  sockets = []
  with contextlib.suppress(OSError):
    while True:
      sockets.append(socket.socket())
      take(sockets[-1])
  return sorted(s.getsockname()[1] for s in sockets[:-1])

listening = socket.create_server(("", 30000), backlog=10)
held = service_node.ReservedPort()
for take in (
  lambda s: s.bind(("", 0)),
  lambda s: s.connect(("127.0.0.1", 30000)),
):
  print(held.build() + ":", *taken(take))
"""


@pytest.fixture
def held():
  return service_node.ReservedPort()


def _port(builder):
  host, _, port = builder.build().rpartition(":")
  assert host == "localhost"
  return int(port)


def test_whoever_wants_any_gets_another():
  if not (shutil.which("unshare") and shutil.which("ip")):
    pytest.skip("needs `unshare` of util-linux and `ip` of iproute2")
  tried = subprocess.run(
    [*_NETWORK, _FOUR], capture_output=True, text=True, check=False
  )
  if tried.returncode:
    pytest.skip(f"no network of its own can be made here: {tried.stderr}")
  told = subprocess.run(
    [*_NETWORK, f'{_FOUR}; ip link set lo up; exec "$0" -c "$1"']
    + [sys.executable, _TAKEN],
    capture_output=True,
    text=True,
    check=True,
  ).stdout
  for line in told.splitlines():
    own, *others = line.replace("localhost:", "").split()
    assert sorted([own.rstrip(":"), *others]) == [
      str(port) for port in range(40_000, 40_004)
    ]
  assert len(told.splitlines()) == 2


def test_who_does_not_listen_takes_no_connection(held):
  with socket.socket() as caller, pytest.raises(ConnectionRefusedError):
    caller.connect(("localhost", _port(held)))


def test_a_server_is_started_on_it_again_and_again(held):
  for life in range(3):
    table = reverb.Table.queue(f"life {life}", 1)
    server = reverb.Server([table], port=_port(held))
    clients = [reverb.Client(held.build()) for _ in range(8)]
    infos = [client.server_info(timeout=30) for client in clients]
    assert [list(info) for info in infos] == [[table.name]] * 8
    server.stop()


def test_a_copy_has_the_address_and_holds_nothing(held):
  copy = pickle.loads(pickle.dumps(held))
  port = _port(held)
  assert _port(copy) == _port(pickle.loads(pickle.dumps(copy))) == port
  with socket.socket() as other, pytest.raises(OSError, match="in use"):
    other.bind(("", port))
  held._socket.close()
  assert portpicker.is_port_free(port)


def test_no_two_are_the_same():
  all_held = [service_node.ReservedPort() for _ in range(200)]
  assert len({_port(held) for held in all_held}) == 200
