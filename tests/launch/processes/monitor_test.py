"""Tests of the monitor of a machine and its processes."""

import os
import subprocess
import sys
import time

from slipway.launch.processes import monitor
from tests import polling

# Prints lines as `nvidia-smi --query-gpu=... --format=csv` does.
NVIDIA_SMI = "#!/bin/sh\necho '35, 512, 8192'\necho '0, 3, 8192'\n"


def measure_twice(made, pids):
  """Returns two measurements, with work of this process in between."""
  first = made.measure(pids)
  end_s = time.monotonic() + 1.1
  while time.monotonic() < end_s:
    pass
  return first, made.measure(pids)


def test_a_busy_process_and_its_machine_are_measured(tmp_path):
  program = "print(flush=True); input()"
  idle = subprocess.Popen(
    [sys.executable, "-c", program],
    stdin=subprocess.PIPE,
    stdout=subprocess.PIPE,
  )
  idle.stdout.readline()  # what its start has used is not its idle time's
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


def install_nvidia_smi(folder, monkeypatch, script):
  """Makes a program `nvidia-smi` be found first."""
  program = folder / "nvidia-smi"
  program.write_text(script)
  program.chmod(0o755)
  monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)


def test_gpus_are_those_of_nvidia_smi(tmp_path, monkeypatch):
  install_nvidia_smi(tmp_path, monkeypatch, NVIDIA_SMI)
  made = monitor.Monitor(tmp_path)
  assert made.measure({}).gpus == {}
  gpus = polling.wait_until(lambda: made.measure({}).gpus)
  assert (gpus[0].utilization, gpus[0].memory_used_bytes) == (0.35, 512 * 2**20)
  assert gpus[1].memory_bytes == 8 * 2**30


def test_an_error_of_nvidia_smi_is_no_gpu(tmp_path, monkeypatch):
  calls = tmp_path / "calls"
  script = f"#!/bin/sh\necho no devices\necho >> {calls}\n"
  install_nvidia_smi(tmp_path, monkeypatch, script)
  made = monitor.Monitor(tmp_path)

  def is_asked_again():
    assert made.measure({}).gpus == {}
    return calls.exists() and calls.read_text().count("\n") == 2

  polling.wait_until(is_asked_again, period_s=0.1)
