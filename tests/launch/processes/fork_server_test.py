"""Tests of the fork server's end, and of the processes that it leaves."""

import os
import signal
import subprocess
import sys
import time
from multiprocessing import forkserver, resource_tracker

import pytest

from slipway.launch.processes import fork_server
from tests import polling


def test_a_resource_tracker_that_does_not_end_is_killed(monkeypatch):
  monkeypatch.setattr(fork_server, "_KILL_TIMEOUT_S", 0.5)
  with fork_server.run_server({}):
    os.kill(resource_tracker._resource_tracker._pid, signal.SIGSTOP)
    begun_s = time.monotonic()
  assert time.monotonic() - begun_s < 10.0
  assert resource_tracker._resource_tracker._pid is None


@pytest.fixture
def ignored_sigchld():
  before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
  yield
  signal.signal(signal.SIGCHLD, before)


def test_processes_that_the_kernel_reaps_count_as_ended(ignored_sigchld):
  with fork_server.run_server({}):
    os.kill(forkserver._forkserver._forkserver_pid, signal.SIGKILL)
    polling.wait_until(fork_server.find_end)
    fork_server.start_if_ended()
  assert forkserver._forkserver._forkserver_pid is None


# Runs as process 1 of a PID namespace, and prints which orphans are alive.
_FIRST_PROCESS = """
import os, subprocess, time
import psutil
from slipway.launch.processes import fork_server

def leave(seconds):
  subprocess.Popen(["sleep", seconds])

def adopted():
  found = psutil.process_iter(["name", "ppid", "cmdline"])
  infos = [each.info for each in found if each.info["name"] == "sleep"]
  return {info["cmdline"][-1] for info in infos if info["ppid"] == 1}

if __name__ == "__main__":
  assert os.getpid() == 1
  with fork_server.run_server({}):
    node = fork_server.CONTEXT.Process(target=leave, args=("1001",))
    node.start()
    node.join()
    if os.fork() == 0:  # a program that was executed from outside
      leave("1002")
      os._exit(0)
    while adopted() != {"1001", "1002"}:
      time.sleep(0.05)
    fork_server.kill_orphans([])
    print(adopted())
"""


def test_process_1_kills_only_orphans_of_its_run(tmp_path):
  script = tmp_path / "first.py"
  script.write_text(_FIRST_PROCESS)
  unshare = ["unshare", "--user", "--map-root-user", "--pid", "--fork"]
  unshare.append("--mount-proc")
  if subprocess.run([*unshare, "true"], capture_output=True).returncode:
    pytest.skip("this system allows no PID namespace")
  done = subprocess.run(
    [*unshare, sys.executable, script], capture_output=True, text=True
  )
  assert done.stdout == "{'1002'}\n", done.stderr
