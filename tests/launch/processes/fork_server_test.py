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
    polling.wait_until(fork_server.restart_if_ended)
  assert forkserver._forkserver._forkserver_pid is None
