"""Test of a machine whose traffic goes through an HTTP proxy."""

import os
import subprocess
import sys

import pytest

_PROGRAM = """
import os
from slipway.replay.variables import variables
import reverb
server = reverb.Server([variables.make_table()])
print(*reverb.Client(f"127.0.0.1:{server.port}").server_info(20))
print(os.environ["no_grpc_proxy"])
"""


@pytest.mark.parametrize("name", ["http_proxy", "https_proxy", "grpc_proxy"])
def test_connections_of_a_machine_need_no_proxy(name):
  # Nothing listens on port 1.
  proxies = {name: "http://127.0.0.1:1", "no_grpc_proxy": "example.com"}
  done = subprocess.run(
    [sys.executable, "-c", _PROGRAM],
    capture_output=True,
    text=True,
    env={**os.environ, **proxies},
  )
  expected = ["variables", "example.com,127.0.0.1,localhost"]
  assert done.stdout.splitlines() == expected, done.stderr
