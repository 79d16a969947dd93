"""Tests of which processes reach a port in a private network."""

import ctypes
import socket
import subprocess
import sys

import pytest

from slipway.launch.processes import private_network

_CAP_SYS_ADMIN, _PR_CAPBSET_DROP = 21, 24

# Serves a port in the network: sends "inside" to its own connection, and
# "passed" to all later ones.
_SERVER = """
import ast, os, socket, sys
from slipway.launch.processes import private_network
from slipway.replay.transport import socket_passing
network = private_network.PrivateNetwork(ast.literal_eval(sys.argv[1]))
network.enter()
listening = socket.create_server(("localhost", 0))
port = listening.getsockname()[1]
passer = socket_passing.Passer(sys.argv[2], port)
own = socket.create_connection(("localhost", port))
listening.accept()[0].sendall(b"inside")
print(port, own.recv(9).decode(), os.geteuid(), flush=True)
while True:
  with listening.accept()[0] as connection:
    connection.sendall(b"passed")
"""

_MAKER = """
import subprocess, sys
from slipway.launch.processes import private_network
from slipway.replay.transport import socket_passing
with private_network.create() as network:
  print([kind for kind, _ in network.namespaces])
  with subprocess.Popen(
    [sys.executable, "-c", sys.argv[1], repr(network.namespaces), sys.argv[2]],
    stdout=subprocess.PIPE, text=True,
  ) as server:
    print(server.stdout.readline().strip(), flush=True)
    for _ in range(2):
      with socket_passing.connect(sys.argv[2]) as connection:
        print(connection.recv(9).decode(), flush=True)
    sys.stdin.readline()
    server.kill()
"""


def drop_rights():
  """Drops root's right to make a network namespace, like an ordinary user."""
  libc = ctypes.CDLL(None, use_errno=True)
  libc.prctl(_PR_CAPBSET_DROP, _CAP_SYS_ADMIN, 0, 0, 0)


@pytest.mark.parametrize("before", [None, drop_rights], ids=["all", "few"])
def test_processes_outside_only_get_passed_connections(tmp_path, before):
  try:
    with private_network.create():
      pass
  except OSError as error:
    pytest.skip(f"this system allows no private network: {error}")
  path = str(tmp_path / "s")
  with subprocess.Popen(
    [sys.executable, "-c", _MAKER, _SERVER, path],
    stdin=subprocess.PIPE,
    stdout=subprocess.PIPE,
    text=True,
    preexec_fn=before,
  ) as maker:
    kinds = maker.stdout.readline().strip()
    port, inside, _ = maker.stdout.readline().split()
    assert inside == "inside"
    assert [maker.stdout.readline().strip() for _ in range(2)] == ["passed"] * 2
    with pytest.raises(ConnectionRefusedError):
      socket.create_connection(("localhost", int(port)), 5.0)
    maker.communicate("end\n")
  assert ("user" in kinds) == (before is not None or kinds != "['net']")


def test_a_rejection_by_the_kernel_raises_one_line(monkeypatch):
  monkeypatch.setattr(sys, "executable", "/bin/false")
  with (
    pytest.raises(OSError, match="killed") as error,
    private_network.create(),
  ):
    pass
  assert "\n" not in str(error.value)
