"""Tests of the fork server's end, and of the processes that it leaves."""

import multiprocessing
import os
import signal
import subprocess
import sys
import time

import cloudpickle
import psutil
import pytest

from slipway.launch.processes import fork_server, node_process
from tests import polling

cloudpickle.register_pickle_by_value(sys.modules[__name__])


@pytest.fixture
def memory_dir(tmp_path):
  made = tmp_path / "slipway-memory"
  made.mkdir()
  return made


def fork(server, log, function):
  """Forks a node; returns its pid."""
  log.touch()
  polling.wait_until(lambda: server.is_ready(1.0))
  node = node_process.PreparedNode("a/0", cloudpickle.dumps(function), {})
  return server.fork(node, log, "a mark")


def leave():
  subprocess.Popen(["setsid", "sleep", "600"])
  time.sleep(600)


def list_left(parent):
  """Returns the processes that a node has started."""
  children = psutil.Process(parent).children(recursive=True)
  return [child for child in children if child.name() == "sleep"]


def test_a_server_that_is_closed_leaves_nothing(memory_dir, tmp_path):
  server = fork_server.ForkServer(str(memory_dir))
  node = fork(server, tmp_path / "log", leave)
  polling.wait_until(lambda: list_left(node))
  left = list_left(node)
  server.close()
  assert not any(polling.is_alive(process.pid) for process in left)
  polling.wait_until(lambda: not polling.is_alive(node))


_LAUNCHER = """
import pathlib, sys
from tests.launch.processes import fork_server_test as test
server = test.fork_server.ForkServer(sys.argv[1])
pid = test.fork(server, pathlib.Path(sys.argv[2]), test.leave)
print(pid, flush=True)
test.time.sleep(600)
"""


def test_a_launcher_that_is_killed_leaves_nothing(memory_dir, tmp_path):
  with subprocess.Popen(
    [sys.executable, "-c", _LAUNCHER, memory_dir, tmp_path / "log"],
    stdout=subprocess.PIPE,
    env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
  ) as launcher:
    node = int(launcher.stdout.readline())
    polling.wait_until(lambda: list_left(node))
    left = list_left(node)
    launcher.kill()
  polling.wait_until(lambda: not polling.is_alive(node))
  polling.wait_until(
    lambda: not any(polling.is_alive(process.pid) for process in left)
  )
  polling.wait_until(lambda: not memory_dir.exists())


def test_a_server_that_ends_takes_its_nodes_along(memory_dir, tmp_path):
  server = fork_server.ForkServer(str(memory_dir))
  node = fork(server, tmp_path / "log", lambda: time.sleep(600))
  psutil.Process(psutil.Process(node).ppid()).kill()
  with pytest.raises(fork_server.EndedError, match="was ended by SIGKILL"):
    while True:
      server.wait(1.0)
  polling.wait_until(lambda: not polling.is_alive(node))
  server.ensure_running()
  fork(server, tmp_path / "log", lambda: None)
  (end,) = server.wait(60.0)
  assert end.status == node_process.NORMAL_EXIT_STATUS
  server.close()


def start(how):
  if how == "a program":
    return subprocess.Popen(["sleep", "600"])
  process = multiprocessing.get_context("fork").Process(
    target=time.sleep, args=(600,)
  )
  process.start()
  return process


def terminate(number, how):
  started = start(how)
  time.sleep(0.5)  # a forked process has removed the handlers
  os.kill(started.pid, number)
  _, status = os.waitpid(started.pid, 0)
  print("ended by", os.waitstatus_to_exitcode(status))


@pytest.mark.parametrize("how", ["a program", "a fork"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_what_a_node_starts_can_be_terminated(
  memory_dir, tmp_path, how, number
):
  server = fork_server.ForkServer(str(memory_dir))
  log = tmp_path / "log"
  fork(server, log, lambda: terminate(number, how))
  polling.wait_until(lambda: f"ended by {-number}" in log.read_text())
  server.close()
