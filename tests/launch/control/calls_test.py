"""Tests of calls over a socket: types, errors, restarts, users and garbage."""

import contextlib
import math
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time

import msgspec
import numpy as np
import pytest

from slipway.launch.control import calls


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
  def repeat(self, text: str, times: int) -> str: ...  # type: ignore


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

  def repeat(self, text, times):
    return text * times

  def secret(self):
    self.called += 1000


@pytest.fixture
def path(tmp_path):
  return str(tmp_path / "s")


@pytest.fixture
def target(path):
  target = Target()
  with calls.Server(path, Service, target):
    yield target


@pytest.fixture
def client(target, path):
  return calls.connect(Service, path)


@pytest.mark.parametrize("kind", [Circle, Square])
def test_types_are_preserved(client, kind):
  shape = kind(np.float32(0.5), {3: "c"})
  assert client.move(shape, np.int64(1)) == kind(1.5, {3: "c"})
  assert client.move(kind(math.inf), 1.0) == kind(math.inf)
  assert math.isnan(client.move(kind(math.nan), 1.0).x)
  assert client.nothing() is None
  assert client.repeat("ab", 10**6) == "ab" * 10**6


def test_errors_are_one_line(client, caplog):
  with pytest.raises(ValueError, match=r"^seven is no number$"):
    client.reject("seven")
  with pytest.raises(calls.UnreachableError, match="KeyError: 'a bug'"):
    client.fail()
  assert "a bug" in caplog.text
  with pytest.raises(calls.UnreachableError, match="message length"):
    client.repeat("ab", 10**7)  # longer than any message
  assert client.wait(0.0) == 1


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
    outcome, value = calls.unpack(
      exchange(path, frame(calls.pack(method, arguments)))[4:]
    )
    assert outcome == "rejected" and b"\n" not in bytes(value)
  assert target.called == 0
  (line,) = caplog.messages
  assert "is rejected" in line and "\n" not in line
  assert client.wait(0.0) == 1


def frame(data):
  """Returns a message of `multiprocessing.connection`."""
  return struct.pack("!i", len(data)) + data


def exchange(path, data):
  """Sends bytes on a connection of their own; returns all bytes received."""
  received = b""
  with socket.socket(socket.AF_UNIX) as connection:
    connection.settimeout(10.0)
    connection.connect(path)
    connection.sendall(data)
    connection.shutdown(socket.SHUT_WR)
    with contextlib.suppress(ConnectionResetError):  # bytes were left unread
      while chunk := connection.recv(2**16):
        received += chunk
  return received


@pytest.mark.parametrize(
  ("sent", "replied", "logged"),
  [
    (b"GET / HTTP/1.1\r\n\r\n", False, True),
    (b"\0", False, True),
    (struct.pack("!i", 2**31 - 1) + bytes(9), False, True),  # huge
    (struct.pack("!iQ", -1, 2**63) + bytes(9), False, True),
    (struct.pack("!i", 9) + b"[", False, True),  # half a message
    (struct.pack("!i", -5), True, True),
    (frame(b""), True, True),
    (frame(b"\xc1"), True, True),
    (frame(b"no request"), True, True),
    (frame(msgspec.msgpack.encode({"a": 1})), True, True),
    (b"", False, False),
  ],
)
def test_garbage_ends_its_own_connection_only(
  target, path, client, caplog, sent, replied, logged
):
  assert client.wait(0.0) == 1
  for _ in range(2):
    assert bool(exchange(path, sent)) == replied
  assert client.wait(0.0) == 1
  assert target.called == 0
  assert len(caplog.messages) == logged


def test_calls_at_once(client):
  results = []
  threads = [
    threading.Thread(target=lambda: results.append(client.wait(0.2)))
    for _ in range(10)
  ]
  for thread in threads:
    thread.start()
  assert client.repeat("a", 1) == "a"  # is not blocked by these calls
  assert len(results) < 10
  for thread in threads:
    thread.join()
  assert results == [1] * 10


def test_a_server_that_is_down_or_silent(path):
  with pytest.raises(calls.UnreachableError, match="'nothing' at"):
    calls.connect(Service, path).nothing()
  with (
    calls.Server(path, Service, Target()),
    pytest.raises(calls.UnreachableError, match="timed out"),
  ):
    calls.connect(Service, path, timeout_s=0.1).wait(1.0)


_SERVES = """
import sys, time
from slipway.launch.control import calls
class Service:
  def wait(self, seconds: float) -> int: ...
class Target:
  def wait(self, seconds): return 1
calls.Server(sys.argv[1], Service, Target())
print("serves", flush=True)
time.sleep(60)
"""


def test_a_server_that_is_stopped_and_then_killed(path):
  process = subprocess.Popen(
    [sys.executable, "-c", _SERVES, path], stdout=subprocess.PIPE, text=True
  )
  with process:
    assert process.stdout.readline() == "serves\n"
    process.send_signal(signal.SIGSTOP)
    with pytest.raises(calls.UnreachableError, match="timed out"):
      calls.connect(Service, path, timeout_s=0.1).wait(0.0)
    threading.Timer(0.3, process.send_signal, [signal.SIGCONT]).start()
    assert calls.connect(Service, path, timeout_s=30.0).wait(0.0) == 1
    process.kill()
  assert os.path.exists(path)  # and is replaced
  with calls.Server(path, Service, Target()):
    assert calls.connect(Service, path).wait(0.0) == 1
  with pytest.raises(ValueError, match="107"):
    calls.Server("/" + "a" * 200, Service, Target())


def test_a_client_finds_a_restarted_server(path):
  client = calls.connect(Service, path)
  for _ in range(3):
    with calls.Server(path, Service, Target()):
      assert client.wait(0.0) == 1
    with pytest.raises(calls.UnreachableError):
      client.wait(0.0)


def test_a_server_closes_while_it_executes_a_call(target, path):
  client, errors = calls.connect(Service, path), []

  def call():
    with pytest.raises(calls.UnreachableError) as raised:
      client.wait(5.0)
    errors.append(raised.value)

  with calls.Server(f"{path}2", Service, Target()):
    client = calls.connect(Service, f"{path}2")
    thread = threading.Thread(target=call)
    thread.start()
    time.sleep(0.2)
    begun_s = time.monotonic()
  thread.join()
  assert errors and time.monotonic() - begun_s < 3.0


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
  sent = frame(calls.pack("nothing", []))
  done = subprocess.run(
    [sys.executable, "-c", _OTHER_USER, path, sent.hex()],
    capture_output=True,
    text=True,
    check=True,
  )
  assert done.stdout.strip() == got
  assert target.called == 0
  exchange(path, sent)
  assert target.called == 1
