"""Tests that a confined server rejects connections from another host."""

import contextlib
import socket

import pytest

from slipway.replay.transport import loopback
from tests.replay.transport import hosts

# Serves, and confines the port at the first line of stdin. At each later line,
# connects to the server by the addresses in the line. Then prints the number of
# established connections from the remote host.
_SERVER = """
import sys
import reverb
from slipway.replay.transport import loopback

server = reverb.Server([reverb.Table.queue("items", 10)], port=7000)
print("serving", flush=True)
sys.stdin.readline()
loopback.confine(7000)
print("confined", flush=True)
for line in sys.stdin:
  with open("/proc/self/net/tcp6") as file:
    lines = [line.split() for line in file][1:]
  # State 01 is ESTABLISHED. The bytes of 10.99.0.3 are in reverse order.
  remote = [x for x in lines if "0300630A:" in x[2] and x[3] == "01"]
  for host in line.split():
    client = reverb.Client(f"{host}:7000")
    assert client.server_info(10)["items"].current_size == 0
  print(len(remote), flush=True)
"""

# Connects, and starts the handshake of a second connection with hand-made
# packets. Their source address belongs to no host, so no kernel replies to the
# server. Completes the handshake at a line of stdin.
_REMOTE_CLIENT = """
import socket, struct, sys

def checksum(data):
  total = sum(struct.unpack(f">{len(data) // 2}H", data))
  total = (total >> 16) + (total & 0xFFFF)
  return ~(total + (total >> 16)) & 0xFFFF

def send(flags, number, confirmed):
  own, server = map(socket.inet_aton, ("10.99.0.3", "10.99.0.1"))
  head = [40_000, 7000, number, confirmed, 5 << 4, flags, 60_000]
  tcp = struct.pack(">HHIIBBHHH", *head, 0, 0)
  pseudo = own + server + struct.pack(">HH", 6, len(tcp))
  tcp = struct.pack(">HHIIBBHHH", *head, checksum(pseudo + tcp), 0)
  ip = struct.pack(">BBHHHBBH4s4s", 69, 0, 0, 0, 0, 64, 6, 0, own, server)
  raw.sendto(ip + tcp, ("10.99.0.1", 0))

raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
sniffer = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(2048))
early = socket.create_connection(("10.99.0.1", 7000), 30)
send(2, 100, 0)  # SYN
while True:
  packet = sniffer.recv(2048)
  if packet[16:20] == socket.inet_aton("10.99.0.3") and packet[33] == 18:
    break
print("connected", flush=True)
sys.stdin.readline()
send(16, 101, struct.unpack(">I", packet[24:28])[0] + 1)  # ACK
try:
  while early.recv(4096):
    pass
except ConnectionResetError:
  pass
print("cut", flush=True)
try:
  socket.create_connection(("10.99.0.1", 7000), 30)
except ConnectionRefusedError:
  print("refused", flush=True)
"""


def _send_line(process, line: str) -> None:
  process.stdin.write(f"{line}\n")
  process.stdin.flush()


def _receive_line(process) -> str:
  return process.stdout.readline().strip()


def test_remote_clients_are_rejected_also_existing_ones():
  with (
    hosts.pair() as (server_host, remote_host),
    contextlib.ExitStack() as stack,
  ):
    # Packets to the unused address reach the remote host, whose kernel drops
    # them.
    neighbour = ("10.99.0.3", "lladdr", remote_host.mac, "dev", "eth0")
    server_host.ip("neighbour", "add", *neighbour)
    server = stack.enter_context(server_host.start(_SERVER))
    stack.callback(server.kill)
    assert _receive_line(server) == "serving"
    remote_client = stack.enter_context(remote_host.start(_REMOTE_CLIENT))
    stack.callback(remote_client.kill)
    assert _receive_line(remote_client) == "connected"
    _send_line(server, "confine")
    assert _receive_line(server) == "confined"
    _send_line(remote_client, "go on")
    assert _receive_line(remote_client) == "cut"
    assert _receive_line(remote_client) == "refused"
    # The own host can connect; no remote connection is left.
    _send_line(server, "localhost 127.0.0.1 [::1]")
    assert _receive_line(server) == "0"


def test_connections_of_the_own_host_stay_open():
  with (
    socket.create_server(("::", 0), family=socket.AF_INET6) as server,
    socket.create_connection(("::1", server.getsockname()[1])) as client,
    server.accept()[0] as accepted,
  ):
    port = server.getsockname()[1]
    loopback.confine(port)
    loopback.confine(port)
    accepted.sendall(b"x")
    assert client.recv(1) == b"x"
    with socket.create_connection(("::1", port)):
      server.accept()[0].close()


def _raise_permission_error(listening):
  raise PermissionError(1, "Operation not permitted")


def test_one_of_two_mechanisms_suffices_and_none_is_an_error(monkeypatch):
  # Without root, binding to the device works only on some kernels; older ones
  # still have the filter.
  with socket.create_server(("", 0)) as server:
    port = server.getsockname()[1]
    monkeypatch.setattr(
      loopback, "_attach_loopback_filter", _raise_permission_error
    )
    loopback.confine(port)
    device = server.getsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, 16)
    assert device.rstrip(b"\0") == b"lo"
    monkeypatch.setattr(loopback, "_bind_to_loopback", _raise_permission_error)
    with pytest.raises(OSError, match=f"port {port} can't be restricted"):
      loopback.confine(port)


def test_a_server_that_accepts_no_connection_is_an_error(monkeypatch):
  monkeypatch.setattr(loopback, "_ACCEPT_TIMEOUT_S", 0.1)
  with (
    socket.create_server(("127.0.0.1", 0)) as server,
    socket.create_connection(server.getsockname()),
    pytest.raises(OSError, match="accepted no connection"),
  ):
    loopback.confine(server.getsockname()[1])


def test_a_port_without_a_server_is_rejected():
  with socket.socket() as bound:
    bound.bind(("127.0.0.1", 0))
    port = bound.getsockname()[1]
    with pytest.raises(
      ValueError, match=f"no socket of this process listens on port {port}"
    ):
      loopback.confine(port)
