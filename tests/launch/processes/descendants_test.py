"""Tests that descendants are killed and reaped, except other users' ones."""

import os
import subprocess
import sys

import psutil
import pytest

_OTHER_USER = 65_534

_KILLS_ANOTHER_USERS = f"""
import os, subprocess, psutil
from slipway.launch.processes import descendants
roots = subprocess.Popen(["sleep", "60"], stdout=subprocess.DEVNULL)
os.setuid({_OTHER_USER})
own = subprocess.Popen(["sleep", "60"])
descendants.kill([psutil.Process(roots.pid), psutil.Process(own.pid)])
assert own.wait(10) == -9
print(roots.pid)
"""


@pytest.mark.skipif(os.getuid() != 0, reason="only root can change its user")
def test_a_process_of_another_user_is_skipped():
  ran = subprocess.run(
    [sys.executable, "-c", _KILLS_ANOTHER_USERS],
    stdout=subprocess.PIPE,
    text=True,
    timeout=60,
    check=True,
  )
  psutil.Process(int(ran.stdout)).kill()


# Runs in its own process, which has no other children.
_ADOPTS = """
import os, subprocess, sys, time, psutil
from slipway.launch.processes import descendants

descendants.adopt()
started = subprocess.Popen([sys.executable, "-c", "raise SystemExit(3)"])
os.system("sleep 0.1 &")
descendants._REAP_AFTER_S = 0.0
reaper = descendants.Reaper()
while [c.pid for c in psutil.Process().children()] != [started.pid]:
  reaper.reap()
  time.sleep(0.05)
while psutil.Process(started.pid).status() != psutil.STATUS_ZOMBIE:
  time.sleep(0.05)
reaper.reap()
reaper.reap()
assert started.wait(10) == 3
"""


def test_adopted_zombies_are_reaped_and_others_are_not():
  subprocess.run([sys.executable, "-c", _ADOPTS], timeout=60, check=True)
