"""Tests that the end of the fork server does not wait for a hanging process."""

import os
import signal
import time
from multiprocessing import resource_tracker

from slipway.launch.processes import fork_server


def test_a_resource_tracker_that_does_not_end_is_killed(monkeypatch):
  monkeypatch.setattr(fork_server, "_KILL_TIMEOUT_S", 0.5)
  with fork_server.run_server({}):
    os.kill(resource_tracker._resource_tracker._pid, signal.SIGSTOP)
    begun_s = time.monotonic()
  assert time.monotonic() - begun_s < 10.0
  assert resource_tracker._resource_tracker._pid is None
