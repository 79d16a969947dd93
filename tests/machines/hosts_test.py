"""Hosts: what is private, what they share, and that nothing is left of them."""

import os
import pathlib
import signal
import socket
import subprocess
import sys
import textwrap

import psutil
import pytest

from tests.machines import hosts

pytestmark = pytest.mark.machines

# Sends a reply on each connection, until the process is killed.
_SERVER = """
import socket
server = socket.create_server(("", 7))
print("listening", flush=True)
while True:
  server.accept()[0].sendall(b"hello")
"""
_CLIENT = """
import socket, sys
with socket.create_connection((sys.argv[1], 7), timeout=1) as server:
  print(server.recv(5).decode())
"""


def _serve(host, output):
  """Starts the server on a host; waits until it listens."""
  host.start([sys.executable, "-c", _SERVER], stdout=output)
  hosts.wait_until(lambda: "listening" in output.read_text(), 10)


def _request(host, server):
  """Returns the reply of the server on another host, or None."""
  run = host.run([sys.executable, "-c", _CLIENT, server], check=False)
  return run.stdout.strip() or None


def _run(host, *command):
  """Runs a command on a host; returns its output."""
  return host.run(command).stdout.strip()


def test_each_host_has_its_own_name_address_and_files_in_memory(network):
  left, right = network.add("left"), network.add("right")
  assert (left.name, _run(left, "hostname")) == ("left", "left")
  assert f"inet {left.address}/24" in _run(left, "ip", "address", "show")
  assert left.address != right.address
  mine = f"slipway-test-{os.getpid()}"
  for folder in ("/tmp", "/dev/shm"):
    _run(left, "touch", f"{folder}/{mine}")
    assert mine in _run(left, "ls", folder).split()
    assert mine not in _run(right, "ls", folder).split()
    assert not os.path.exists(f"{folder}/{mine}")
  assert socket.gethostname() not in ("left", "right")


def test_hosts_share_the_repository_and_one_folder(network):
  left, right = network.add("left"), network.add("right")
  (network.shared / "from_outside").write_text("a")
  _run(left, "cp", f"{network.shared}/from_outside", f"{network.shared}/b")
  assert _run(right, "cat", f"{network.shared}/b") == "a"
  assert _run(right, "pwd") == os.getcwd()
  assert _run(right, "cat", "pyproject.toml") == (
    pathlib.Path("pyproject.toml").read_text().strip()
  )


def test_a_host_without_the_shared_folder_still_reaches_the_others(network):
  network.add("left")
  peer = network.add("stranger", shared=False)
  (network.shared / "secret").write_text("a")
  assert _run(peer, "getent", "hosts", "left").startswith("10.77.0.1 ")
  attempt = peer.run(["cat", str(network.shared / "secret")], check=False)
  assert attempt.returncode
  assert "No such file" in attempt.stderr


def test_processes_are_those_of_the_host(network):
  left, right = network.add("left"), network.add("right")
  process = left.start(["sleep", "1000"])
  hosts.wait_until(lambda: left.processes("sleep 1000"), 10)
  assert [each.pid for each in left.processes()] == [process.pid]
  assert left.processes("2000") == right.processes() == []
  # The host sees its own processes only: pid 1 and its child, `sleep`, and the
  # command that lists them.
  seen = _run(left, "sh", "-c", "ls -d /proc/[0-9]*").split()
  assert 3 <= len(seen) <= 6
  process.terminate()
  assert process.wait(10) == -signal.SIGTERM
  assert left.processes() == []


def test_orphans_are_reaped(network):
  host = network.add("left")
  _run(host, "sh", "-c", "(sleep 0.1 &)")
  hosts.wait_until(lambda: host.processes() == [], 10)
  states = _run(host, "sh", "-c", "cat /proc/[0-9]*/stat").splitlines()
  assert states
  assert [line for line in states if ") Z " in line] == []


def test_a_command_that_fails_or_hangs_raises_an_error(network):
  host = network.add("left")
  with pytest.raises(subprocess.CalledProcessError) as failed:
    host.run(["sh", "-c", "echo out; echo err >&2; exit 3"])
  assert failed.value.returncode == 3
  assert (failed.value.stdout, failed.value.stderr) == ("out\n", "err\n")
  with pytest.raises(subprocess.TimeoutExpired):
    host.run(["sleep", "1000"], timeout_s=0.2)
  hosts.wait_until(lambda: host.processes() == [], 10)


def test_a_cut_cable_carries_nothing_until_it_is_reconnected(network, tmp_path):
  left, right = network.add("left"), network.add("right")
  _serve(right, tmp_path / "said")
  assert _request(left, right.name) == "hello"
  right.cut()
  assert _request(left, right.name) is None
  assert _request(right, right.name) == "hello"
  right.reconnect()
  hosts.wait_until(lambda: _request(left, right.name) == "hello", 30)


def test_a_killed_host_leaves_no_process_and_does_not_affect_others(
  network, tmp_path
):
  left, right = network.add("left"), network.add("right")
  _serve(left, tmp_path / "left")
  server = right.start(["sh", "-c", "(setsid sleep 1000 &); sleep 1000"])
  hosts.wait_until(lambda: len(right.processes("sleep")) == 3, 10)
  killed = right.processes()
  right.kill()
  assert right.processes() == []
  assert not any(process.is_running() for process in killed)
  assert server.poll() == -signal.SIGKILL
  third = network.add("third")
  assert _request(third, left.name) == "hello"


def _links():
  return subprocess.check_output(["ip", "link"], text=True)


def _mounts():
  with open("/proc/self/mounts") as mounts:
    return mounts.read()


def test_nothing_is_left_after_close(tmp_path):
  if obstacle := hosts.find_obstacle():
    pytest.skip(obstacle)
  links, mounts = _links(), _mounts()
  network = hosts.Network(tmp_path)
  host = network.add("left")
  host.start(["sleep", "1000"])
  assert (_links(), _mounts()) == (links, mounts)
  network.close()
  assert host.processes() == []
  assert not [
    child.cmdline()
    for child in psutil.Process().children(recursive=True)
    if child.status() != psutil.STATUS_ZOMBIE
  ]


def test_hosts_end_with_a_test_that_is_killed(tmp_path):
  if obstacle := hosts.find_obstacle():
    pytest.skip(obstacle)
  killed = textwrap.dedent("""
    import pathlib, sys, time
    from tests.machines import hosts
    network = hosts.Network(pathlib.Path(sys.argv[1]))
    host = network.add("left")
    host.start(["sleep", "1000"])
    hosts.wait_until(lambda: host.processes("sleep 1000"), 10)
    print("started", flush=True)
    time.sleep(1000)
  """)
  with subprocess.Popen(
    [sys.executable, "-c", killed, str(tmp_path)],
    stdout=subprocess.PIPE,
    text=True,
  ) as test:
    assert test.stdout and test.stdout.readline() == "started\n"
    left = psutil.Process(test.pid).children(recursive=True)
    assert "sleep" in {process.name() for process in left}
    test.kill()
  hosts.wait_until(lambda: not any(p.is_running() for p in left), 10)
