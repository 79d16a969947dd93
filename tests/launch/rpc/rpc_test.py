"""Tests of calls over a socket: types, errors, restarts, users and garbage."""

import contextlib
import math
import os
import socket
import struct
import subprocess
import sys
import threading
import time

import msgspec
import numpy as np
import pytest

from slipway.launch.rpc import client as rpc_client
from slipway.launch.rpc import server, wire


class Point(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
  x: float
  names: dict[int, str] = {}


class Circle(Point, frozen=True, tag="circle", forbid_unknown_fields=True):
  pass


class Square(Point, frozen=True, tag="square", forbid_unknown_fields=True):
  pass


class Service:
  """The methods of `Target` that other processes may call."""

  def move(self, shape: Circle | Square, by: float) -> Circle | Square: ...  # type: ignore
  def nothing(self) -> None: ...
  def reject(self, text: str) -> int: ...  # type: ignore
  def fail(self) -> int: ...  # type: ignore
  def wait(self, seconds: float) -> int: ...  # type: ignore
  @wire.retried
  def important(self) -> int: ...  # type: ignore


class Target:
  def __init__(self):
    self.called = 0

  def move(self, shape, by):
    return msgspec.structs.replace(shape, x=shape.x + by)

  def nothing(self):
    self.called += 1

  def reject(self, text):
    raise ValueError(f"{text} is no number")

  def fail(self):
    raise KeyError("a bug")

  def wait(self, seconds):
    time.sleep(seconds)
    return 1

  def important(self):
    return 7

  def secret(self):
    self.called += 1000


@pytest.fixture
def path(tmp_path):
  return str(tmp_path / "s")


@pytest.fixture
def target(path):
  target = Target()
  with server.Server(path, Service, target):
    yield target


@pytest.fixture
def client(target, path):
  return rpc_client.connect(Service, path)


@pytest.mark.parametrize("kind", [Circle, Square])
def test_types_are_preserved(client, kind):
  shape = kind(np.float32(0.5), {3: "c"})
  assert client.move(shape, np.int64(1)) == kind(1.5, {3: "c"})
  assert client.move(kind(math.inf), 1.0) == kind(math.inf)
  assert math.isnan(client.move(kind(math.nan), 1.0).x)
  assert client.nothing() is None


def test_errors_are_one_line(client, caplog):
  with pytest.raises(ValueError, match=r"^seven is no number$"):
    client.reject("seven")
  with pytest.raises(rpc_client.UnreachableError, match="KeyError: 'a bug'"):
    client.fail()
  assert "a bug" in caplog.text
  assert client.important() == 7


@pytest.mark.parametrize(
  ("method", "arguments"),
  [
    ("move", [{"type": "circle", "x": "0"}, 1.0]),
    ("move", [{"type": "circle", "z": 0.0}, 1.0]),
    ("move", [{"type": "triangle", "x": 0.0}, 1.0]),
    ("move", [{"x": 0.0}, 1.0]),
    ("nothing", [1]),
    ("reject", []),
    ("secret", []),
    ("__init__", []),
    ("\n" * 1000, []),
  ],
)
def test_another_call_is_rejected(
  target, path, client, caplog, method, arguments
):
  for _ in range(2):
    reply = call(path, [method, arguments])
    assert reply.rejected and reply.error
  assert target.called == 0
  (line,) = caplog.messages
  assert "is rejected" in line and "\n" not in line
  assert client.important() == 7


def call(path, request):
  """Returns the reply to a request, which has its own connection."""
  with connect(path) as connection:
    wire.send(connection, request)
    return msgspec.msgpack.decode(wire.receive(connection), type=wire.Reply)


def connect(path, begin=wire.PREFACE):
  connection = socket.socket(socket.AF_UNIX)
  connection.settimeout(10.0)
  connection.connect(path)
  connection.sendall(begin)
  return connection


GARBAGE = {
  "no preface": b"GET / HTTP/1.1\r\n\r\n",
  "preface of http2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(9),
  "half a preface": wire.PREFACE[:5],
  "a huge frame": wire.PREFACE + struct.pack("!I", 2**32 - 1) + bytes(9),
  "half a frame": wire.PREFACE + struct.pack("!I", 9) + b"[",
  "no frame": wire.PREFACE + b"\0",
}


@pytest.mark.parametrize("kind", GARBAGE)
def test_garbage_ends_its_own_connection_only(target, path, client, kind):
  assert client.important() == 7
  with connect(path, GARBAGE[kind]) as connection:
    connection.shutdown(socket.SHUT_WR)
    with contextlib.suppress(
      ConnectionResetError
    ):  # the server left bytes unread
      assert connection.recv(1) == b""
  assert client.important() == 7
  assert target.called == 0


def test_bytes_that_are_no_request_are_rejected(target, path, client):
  for data in (b"", b"\xc1", b"no request", msgspec.msgpack.encode({"a": 1})):
    with connect(path) as connection:
      connection.sendall(struct.pack("!I", len(data)) + data)
      reply = msgspec.msgpack.decode(wire.receive(connection), type=wire.Reply)
    assert reply.rejected
  assert client.important() == 7


def test_calls_at_once(client):
  results = []
  threads = [
    threading.Thread(target=lambda: results.append(client.wait(0.2)))
    for _ in range(10)
  ]
  for thread in threads:
    thread.start()
  assert client.important() == 7  # is not blocked by these calls
  assert len(results) < 10
  for thread in threads:
    thread.join()
  assert results == [1] * 10


def test_a_server_that_is_down_or_silent(path):
  with pytest.raises(rpc_client.UnreachableError, match="'nothing' at"):
    rpc_client.connect(Service, path).nothing()
  with (
    server.Server(path, Service, Target()),
    pytest.raises(rpc_client.UnreachableError, match="timed out"),
  ):
    rpc_client.connect(Service, path, timeout_s=0.1).wait(1.0)


def test_a_client_finds_a_restarted_server(path):
  client = rpc_client.connect(Service, path)
  for _ in range(3):
    with server.Server(path, Service, Target()):
      assert client.wait(0.0) == 1
    with pytest.raises(rpc_client.UnreachableError):
      client.wait(0.0)
  waiting = threading.Thread(target=client.important)
  waiting.start()
  time.sleep(0.2)
  assert waiting.is_alive()
  with server.Server(path, Service, Target()):
    waiting.join(10.0)
  assert not waiting.is_alive()


def test_a_killed_server_leaves_a_socket_that_is_replaced(path):
  code = (
    "import os, sys; from slipway.launch.rpc import server\n"
    "class A: pass\n"
    f"server.Server({path!r}, A, A()); os._exit(1)"
  )
  subprocess.run([sys.executable, "-c", code], check=False)
  assert os.path.exists(path)
  with server.Server(path, Service, Target()):
    assert rpc_client.connect(Service, path).important() == 7
  with pytest.raises(ValueError, match="107"):
    server.Server("/" + "a" * 200, Service, Target())


_OTHER_USER = """
import os, socket, sys
connection = socket.socket(socket.AF_UNIX)
os.setuid(65534)
try:
  connection.connect(sys.argv[1])
  connection.sendall(bytes.fromhex(sys.argv[2]))
  print(connection.recv(100))
except PermissionError:
  print("refused")
except ConnectionError:
  print(b"")
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
@pytest.mark.parametrize(("mode", "got"), [(0o600, "refused"), (0o666, "b''")])
def test_another_user_gets_nothing(target, path, mode, got):
  # Even if others can open the socket, the server checks the caller's user,
  # which the kernel reports.
  directory = path
  while (directory := os.path.dirname(directory)) != "/tmp":
    os.chmod(directory, 0o755)
  os.chmod(path, mode)
  request = wire.encode(["nothing", []])
  sent = wire.PREFACE + struct.pack("!I", len(request)) + request
  done = subprocess.run(
    [sys.executable, "-c", _OTHER_USER, path, sent.hex()],
    capture_output=True,
    text=True,
    check=True,
  )
  assert done.stdout.strip() == got
  assert target.called == 0
  assert call(path, ["nothing", []]).error is None
