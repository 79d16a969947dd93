"""Attempts of another user of the machine to read or control a run."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

from slipway.configs import apex_dqn
from slipway.launch.launchers import host_setup
from slipway.launch.processes import private_network

pytestmark = pytest.mark.runs

# The script imports as root, since another user may be unable to read the
# interpreter's files. Then it becomes that user.
_OTHER_USER = """
import functools, json, os, socket, sys
from concurrent import futures
import numpy as np
import reverb
from slipway.launch.control import calls, control_service
from slipway.replay.transport import socket_passing

run, memory, uid, ports, pids = json.loads(sys.argv[1])
sockets = [f"{memory}/{name}" for name in os.listdir(memory)
           if name.endswith(".sock")]
os.setuid(uid)
attempts = {}

def attempt(name, function, *args):
  attempts[name] = functools.partial(function, *args)

def get_info(address):
  return reverb.Client(address).server_info(timeout=2)

def get_status(path):
  return calls.connect(control_service.ControlService, path).status()

def read(path, length=-1):
  with open(path) as file:
    return file.read(length)

for port in ports:
  attempt(f"info {port}", get_info, f"localhost:{port}")
  attempt(f"insert {port}", socket.create_connection, ("", port), 1)
for path in sockets:
  attempt(f"status {path}", get_status, path)
  attempt(f"passed {path}", socket_passing.connect, path)
  if "relay" in path:
    attempt(f"replay {path}", get_info, f"unix:{path}")
for folder in (run, memory):
  attempt(f"list {folder}", os.listdir, folder)
  attempt(f"config {folder}", read, f"{folder}/config.json")
for pid in pids:
  attempt(f"environ {pid}", read, f"/proc/{pid}/environ", 1)
  attempt(f"mem {pid}", open, f"/proc/{pid}/mem", "rb")
  attempt(f"descriptors {pid}", os.listdir, f"/proc/{pid}/fd")
  attempt(f"network {pid}", os.stat, f"/proc/{pid}/ns/net")

def get_result(name):
  try:
    return repr(attempts[name]())[:60]
  except Exception:
    return None

# Most of them wait for a timeout.
with futures.ThreadPoolExecutor(32) as pool:
  results = zip(attempts, pool.map(get_result, attempts))
print(json.dumps({name: got for name, got in results if got is not None}))
sys.stdout.flush()
os._exit(0)
"""


def listening(pid):
  """Yields the TCP ports on which a process listens, in its own network."""
  files = pathlib.Path(f"/proc/{pid}/fd").iterdir()
  own = {os.readlink(file) for file in files if file.is_symlink()}
  for table in ("tcp", "tcp6"):
    text = pathlib.Path(f"/proc/{pid}/net/{table}").read_text()
    for line in text.splitlines()[1:]:
      _, local, _, state, *_, inode = line.split()[:10]
      if state == "0A" and f"socket:[{inode}]" in own:
        yield int(local.rpartition(":")[2], 16)


def attempts(run, uid):
  """Attempts all accesses to a run as another user.

  Returns:
    The TCP ports on which the run listens, and the results of the successful
    attempts by name.
  """
  processes = run.processes()
  ports = {port for process in processes for port in listening(process.pid)}
  (memory,) = run.memory()
  pids = [process.pid for process in processes]
  arguments = json.dumps([str(run.path), memory, uid, sorted(ports), pids])
  done = subprocess.run(
    [sys.executable, "-c", _OTHER_USER, arguments],
    capture_output=True,
    text=True,
    check=True,
    timeout=120,
  )
  return ports, json.loads(done.stdout)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
@pytest.mark.timeout(240)
def test_another_user_gets_nothing(start_run):
  try:
    with private_network.create():
      pass
  except OSError as error:
    pytest.skip(f"this system allows no private network: {error}")
  run = start_run()
  run.wait_until_learning()
  for path in (run.path.parents[1], *run.path.parents[1].parents):
    if path.stat().st_uid == 0 and str(path) != "/tmp":
      path.chmod(0o755)  # like a home folder that all users may enter
  ports, got = attempts(run, 65534)
  assert ports, "no process listens, although the server has a port"
  assert got == {}
  _, own = attempts(run, 0)
  assert {name.partition(" ")[0] for name in own} >= {
    *("status", "passed", "replay", "list", "config"),
    *("environ", "mem", "descriptors", "network"),
  }
  assert not any(name.startswith(("info", "insert")) for name in own)


@pytest.mark.parametrize(
  ("name", "value", "reason"),
  [
    ("topology.proxy", False, "topology.proxy"),
    ("snapshot.url", "s3://bucket/runs", "snapshot.url"),
  ],
)
def test_one_warning_where_there_is_no_private_network(
  capsys, name, value, reason
):
  config = apex_dqn.get_config("cartpole")
  config.update_from_flattened_dict({name: value})
  with host_setup.private_network(config) as network:
    assert network is None
  (line,) = capsys.readouterr().err.splitlines()
  assert line.startswith("warning: other users of this machine can read")
  assert reason in line
