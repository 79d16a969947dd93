"""Tests that descendants are killed, except those of other users."""

import os
import subprocess
import sys

import psutil
import pytest

_OTHER_USER = 65_534

_KILLS_ANOTHER_USERS = f"""
import os, subprocess, psutil
from slipway.launch.processes import descendants
environment = os.environ | {{"MARK": "a mark"}}
roots = subprocess.Popen(
  ["sleep", "60"], stdout=subprocess.DEVNULL, env=environment
)
os.setuid({_OTHER_USER})
marked = subprocess.Popen(["sleep", "60"], env=environment)
own = subprocess.Popen(["sleep", "60"])
descendants.kill_marked({{"a mark"}}, ())
assert not psutil.pid_exists(marked.pid)
assert own.poll() is None
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
import os, subprocess, psutil
from slipway.launch.processes import descendants
descendants.adopt()
spared = subprocess.Popen(["sleep", "60"])
os.system("setsid sleep 61 &")
descendants.kill_children([psutil.Process(spared.pid)])
assert [x.pid for x in psutil.Process().children()] == [spared.pid]
spared.kill()
"""


def test_adopted_orphans_are_killed_and_others_are_spared():
  subprocess.run([sys.executable, "-c", _ADOPTS], timeout=60, check=True)
