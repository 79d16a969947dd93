"""Tests that only the node's own server can use a reserved port."""

import shutil
import socket
import subprocess
import sys

import portpicker
import pytest
import reverb

from slipway.launch.nodes import addresses

_NETWORK = ("unshare", "--net", "sh", "-c")
# Limits the ports that the kernel assigns automatically to four.
_FOUR = "echo 40000 40003 > /proc/sys/net/ipv4/ip_local_port_range"
_TAKEN = """
import contextlib, socket
from slipway.launch.nodes import addresses

def taken(take):
  sockets = []
  with contextlib.suppress(OSError):
    while True:
      sockets.append(socket.socket())
      take(sockets[-1])
  return sorted(s.getsockname()[1] for s in sockets[:-1])

listening = socket.create_server(("", 30000), backlog=10)
held = addresses.reserve_port()
for take in (
  lambda s: s.bind(("", 0)),
  lambda s: s.connect(("127.0.0.1", 30000)),
):
  print(f"{held.getsockname()[1]}:", *taken(take))
"""


@pytest.fixture
def reserved():
  return addresses.reserve_port()


def _port(reserved):
  return reserved.getsockname()[1]


def test_automatic_ports_are_other_ports():
  if not (shutil.which("unshare") and shutil.which("ip")):
    pytest.skip("needs `unshare` of util-linux and `ip` of iproute2")
  tried = subprocess.run(
    [*_NETWORK, _FOUR], capture_output=True, text=True, check=False
  )
  if tried.returncode:
    pytest.skip(f"no network of its own can be made here: {tried.stderr}")
  printed = subprocess.run(
    [*_NETWORK, f'{_FOUR}; ip link set lo up; exec "$0" -c "$1"']
    + [sys.executable, _TAKEN],
    capture_output=True,
    text=True,
    check=True,
  ).stdout
  for line in printed.splitlines():
    own, *others = line.split()
    assert sorted([own.rstrip(":"), *others]) == [
      str(port) for port in range(40_000, 40_004)
    ]
  assert len(printed.splitlines()) == 2


def test_a_reserved_port_accepts_no_connections(reserved):
  with socket.socket() as caller, pytest.raises(ConnectionRefusedError):
    caller.connect(("localhost", _port(reserved)))


def test_a_server_can_be_restarted_on_the_port(reserved):
  for incarnation in range(3):
    table = reverb.Table.queue(f"life {incarnation}", 1)
    server = reverb.Server([table], port=_port(reserved))
    clients = [reverb.Client(f"localhost:{_port(reserved)}") for _ in range(8)]
    infos = [client.server_info(timeout=30) for client in clients]
    assert [list(info) for info in infos] == [[table.name]] * 8
    server.stop()


def test_a_port_is_free_once_the_socket_is_closed(reserved):
  port = _port(reserved)
  with socket.socket() as other, pytest.raises(OSError, match="in use"):
    other.bind(("", port))
  reserved.close()
  assert portpicker.is_port_free(port)


def test_reserved_ports_are_different():
  all_reserved = [addresses.reserve_port() for _ in range(200)]
  assert len({_port(reserved) for reserved in all_reserved}) == 200
