"""Test of a process that runs out of file descriptors during a call."""

import subprocess
import sys

_PROGRAM = """
import contextlib, os, resource

from slipway.replay.variables import variables

import reverb

server = reverb.Server([variables.make_table()])
client = reverb.Client(f"localhost:{server.port}")
_, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (100, hard))
opened = []
with contextlib.suppress(OSError):
  while True:
    opened.append(os.open(os.devnull, os.O_RDONLY))
try:
  client.server_info(1)
except Exception as error:
  print("failed with", type(error).__name__)
for descriptor in opened:
  os.close(descriptor)
print("then found", *client.server_info(60))
"""


def test_calls_fail_without_free_descriptors_and_then_work_again():
  # In a separate process, because an abort would end this one.
  done = subprocess.run(
    [sys.executable, "-c", _PROGRAM], capture_output=True, text=True
  )
  assert done.returncode == 0, done.stderr
  assert done.stdout.splitlines() == [
    "failed with DeadlineExceededError",
    "then found variables",
  ]
