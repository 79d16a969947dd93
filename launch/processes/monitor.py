"""Monitor: measures what a machine and the run's processes on it use."""

import contextlib
import math
import pathlib
import shutil
import subprocess
import time
from collections.abc import Mapping

import psutil

from slipway.launch.runs import machine_usage

_PERIOD_S = 1.0  # for which a measurement is returned again
_GPU_PERIOD_S = 5.0  # a call of nvidia-smi takes up to a second
_NVIDIA_SMI = (
  *("nvidia-smi", "--format=csv,noheader,nounits"),
  "--query-gpu=utilization.gpu,memory.used,memory.total",
)


class Monitor:
  """Measures one machine and some of its processes, at most once per second."""

  def __init__(self, folder: pathlib.Path):
    """Measures nothing yet.

    Args:
      folder: a folder on the disk to measure.
    """
    self._folder = folder
    self._usage = machine_usage.MachineUsage()
    self._measured_at_s = -math.inf  # monotonic
    self._counters = _read_counters()  # at the last measurement
    self._processes: dict[int, psutil.Process] = {}
    self._gpus: dict[int, machine_usage.GpuUsage] = {}
    self._query: subprocess.Popen[str] | None = None

  def measure(self, pids: Mapping[str, int]) -> machine_usage.MachineUsage:
    """Returns the newest measurement, of this moment if the last is 1 s old.

    The first one has rates of 0, and the GPUs follow within seconds.

    Args:
      pids: the run's processes on this machine, by name; those that have ended
        are left out.
    """
    now_s = time.monotonic()
    passed_s = now_s - self._measured_at_s
    if passed_s < _PERIOD_S:
      return self._usage
    self._measured_at_s = now_s
    before, self._counters = self._counters, _read_counters()
    cpu_cores, read, written, received, sent = (
      max(0.0, new - old) / passed_s
      for new, old in zip(self._counters, before, strict=True)
    )
    processes = {}
    for name, pid in pids.items():
      with contextlib.suppress(psutil.Error):
        processes[name] = self._read_process(pid)
    memory, disk = psutil.virtual_memory(), shutil.disk_usage(self._folder)
    self._usage = machine_usage.MachineUsage(
      *(psutil.cpu_count() or 1, cpu_cores),
      *(memory.total, memory.total - memory.available),
      *(disk.total, disk.used, read, written, received, sent),
      self._read_gpus(now_s),
      processes,
    )
    return self._usage

  def _read_process(self, pid: int) -> machine_usage.ProcessUsage:
    """Returns the usage of a process since the last call for it."""
    process = self._processes.setdefault(pid, psutil.Process(pid))
    cpu_cores = process.cpu_percent() / 100
    return machine_usage.ProcessUsage(cpu_cores, process.memory_info().rss)

  def _read_gpus(self, now_s: float) -> dict[int, machine_usage.GpuUsage]:
    """Returns the newest reply of nvidia-smi, without waiting for the next."""
    if self._query is not None and self._query.poll() is not None:
      lines = self._query.communicate()[0].splitlines()
      self._query = None
      with contextlib.suppress(ValueError):  # such as "[N/A]", or an error
        self._gpus = dict(enumerate(map(_parse_gpu, lines)))
    if self._query is None and now_s % _GPU_PERIOD_S < _PERIOD_S:
      with contextlib.suppress(OSError):  # the machine has no GPU of NVIDIA
        self._query = subprocess.Popen(
          _NVIDIA_SMI, stdout=-1, stderr=subprocess.DEVNULL, text=True
        )
    return self._gpus


def _read_counters() -> tuple[float, ...]:
  """Returns processor seconds, and bytes read, written, received and sent."""
  times, disk = psutil.cpu_times(), psutil.disk_io_counters()
  networks = psutil.net_io_counters(pernic=True)
  networks.pop("lo", None)
  return (
    sum(times[:8]) - times.idle - times.iowait,  # guests are part of `user`
    *((disk.read_bytes, disk.write_bytes) if disk else (0, 0)),
    sum(network.bytes_recv for network in networks.values()),
    sum(network.bytes_sent for network in networks.values()),
  )


def _parse_gpu(line: str) -> machine_usage.GpuUsage:
  """Returns the load of a GPU, from percent and MiB such as '35, 512, 8192'."""
  percent, used, total = map(int, line.split(","))
  return machine_usage.GpuUsage(percent / 100, used << 20, total << 20)
