"""Another user of the machine tries everything that a run's own may do."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

from slipway.configs import apex_dqn
from slipway.launch import host_setup
from slipway.launch.processes import private_network

# Imports as root, since another user may not read the interpreter.
_STRANGER = """
import glob, json, os, socket, struct, sys
import numpy as np
import reverb
from slipway.launch.orchestration import control_service
from slipway.launch.rpc import client as rpc_client
from slipway.replay.transport import socket_passing

run, memory, uid, ports, pids = json.loads(sys.argv[1])
sockets = [f"{memory}/{name}" for name in os.listdir(memory)
           if name.endswith(".sock")]
os.setuid(uid)
got = {}

def attempt(name, function):
  try:
    result = function()
  except (Exception, StopIteration):
    return
  got[name] = repr(result)[:60]

for port in ports:
  client = reverb.Client(f"localhost:{port}")
  attempt(f"info {port}", lambda: client.server_info(timeout=2))
  attempt(f"insert {port}", lambda: socket.create_connection(("", port), 1))
for path in sockets:
  attempt(f"status {path}", lambda: rpc_client.connect(
    control_service.ControlService, path).status())
  attempt(f"passed {path}", lambda: socket_passing.connect(path))
  attempt(f"replay {path}", lambda: reverb.Client(
    f"unix:{path}").server_info(timeout=2) if "relay" in path else 1 / 0)
for folder in (run, memory):
  attempt(f"list {folder}", lambda: os.listdir(folder))
  attempt(f"config {folder}", lambda: open(f"{folder}/config.json").read())
for pid in pids:
  for name in ("environ", "mem", "fd", "ns/net"):
    attempt(f"{name} {pid}", lambda: os.stat(f"/proc/{pid}/{name}/") and
            open(f"/proc/{pid}/{name}").read(1))
print(json.dumps(got))
os._exit(0)
"""


def listening(pid):
  """TCP ports on which a process listens, in its own network."""
  files = pathlib.Path(f"/proc/{pid}/fd").iterdir()
  own = {os.readlink(file) for file in files if file.is_symlink()}
  for table in ("tcp", "tcp6"):
    text = pathlib.Path(f"/proc/{pid}/net/{table}").read_text()
    for line in text.splitlines()[1:]:
      _, local, _, state, *_, inode = line.split()[:10]
      if state == "0A" and f"socket:[{inode}]" in own:
        yield int(local.rpartition(":")[2], 16)


def attempts(run, uid):
  """What a user gets of a run, by what was tried."""
  processes = run.processes()
  ports = {port for process in processes for port in listening(process.pid)}
  (memory,) = run.memory()
  pids = [process.pid for process in processes]
  said = json.dumps([str(run.path), memory, uid, sorted(ports), pids])
  done = subprocess.run(
    [sys.executable, "-c", _STRANGER, said],
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
      path.chmod(0o755)  # as a home folder that everybody may enter
  ports, got = attempts(run, 65534)
  assert ports, "the server has one"
  assert got == {}
  _, own = attempts(run, 0)
  assert {name.partition(" ")[0] for name in own} >= {
    "status", "passed", "replay", "list", "config",
  }  # fmt: skip
  assert not any(name.startswith(("info", "insert")) for name in own)


@pytest.mark.parametrize(
  ("name", "value", "because"),
  [
    ("topology.proxy", False, "topology.proxy"),
    ("snapshot.url", "s3://bucket/runs", "snapshot.url"),
  ],
)
def test_one_warning_where_there_is_no_private_network(
  capsys, name, value, because
):
  config = apex_dqn.get_config("cartpole")
  config.update_from_flattened_dict({name: value})
  with host_setup.private_network(config) as network:
    assert network is None
  (line,) = capsys.readouterr().err.splitlines()
  assert line.startswith("warning: other users of this machine can read")
  assert because in line
