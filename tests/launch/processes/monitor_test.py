"""Tests of the monitor of a machine and its processes."""

import os
import subprocess
import sys
import time

import pytest

from slipway.launch.processes import monitor
from tests import polling

# Prints lines as `nvidia-smi --query-gpu=... --format=csv` does.
NVIDIA_SMI = "#!/bin/sh\necho '0, 35, 512, 8192'\necho '1, 0, 3, 8192'\n"


def measure_twice(made, pids):
  """Returns two measurements, with work of this process in between."""
  first = made.measure(pids)
  end_s = time.monotonic() + 1.1
  while time.monotonic() < end_s:
    pass
  return first, made.measure(pids)


def test_a_busy_process_and_its_machine_are_measured(tmp_path):
  idle = subprocess.Popen([sys.executable, "-c", "input()"], stdin=-1)
  pids = {"busy": os.getpid(), "idle": idle.pid}
  try:
    first, second = measure_twice(monitor.Monitor(tmp_path), pids)
  finally:
    idle.communicate(b"\n")
  assert first.cpu_cores == first.processes["busy"].cpu_cores == 0.0
  busy, quiet = second.processes["busy"], second.processes["idle"]
  assert quiet.cpu_cores < busy.cpu_cores < second.cores + 1
  assert second.cpu_cores > 0.0
  assert 0 < quiet.memory_bytes < second.memory_bytes
  assert 0 < second.memory_used_bytes < second.memory_bytes
  assert 0 < second.disk_used_bytes < second.disk_bytes


def test_an_ended_process_is_left_out(tmp_path):
  ended = subprocess.Popen([sys.executable, "-c", ""])
  ended.wait()
  usage = monitor.Monitor(tmp_path).measure({"ended": ended.pid})
  assert usage.processes == {}


def test_a_measurement_is_kept_for_a_while(tmp_path):
  made = monitor.Monitor(tmp_path)
  assert made.measure({}) is made.measure({"own": os.getpid()})


@pytest.mark.parametrize("reply", [NVIDIA_SMI, "#!/bin/sh\necho no devices\n"])
def test_gpus_are_those_of_nvidia_smi(tmp_path, monkeypatch, reply):
  program = tmp_path / "nvidia-smi"
  program.write_text(reply)
  program.chmod(0o755)
  monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
  made = monitor.Monitor(tmp_path)
  usage = made.measure({})
  assert usage.gpus == {}
  if reply is not NVIDIA_SMI:
    time.sleep(1.1)
    assert made.measure({}).gpus == {}
    return
  polling.wait_until(lambda: made.measure({}).gpus)
  gpu = made.measure({}).gpus[0]
  assert (gpu.utilization, gpu.memory_used_bytes) == (0.35, 512 * 2**20)
  assert made.measure({}).gpus[1].memory_bytes == 8 * 2**30
