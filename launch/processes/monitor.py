"""Monitor: measures what a machine and the run's processes on it use."""

import contextlib
import pathlib
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping

import psutil

from slipway.launch.runs import machine_usage

# Seconds for which a measurement is returned again, so that rates are means
# over a useful time.
_PERIOD_S = 1.0
_GPU_PERIOD_S = 5.0  # a call of nvidia-smi takes up to a second
_QUERY = (
  "--query-gpu=index,utilization.gpu,memory.used,memory.total",
  "--format=csv,noheader,nounits",
)
_MEBIBYTE = 2**20
# Names of the network interfaces whose bytes do not leave the machine.
_LOOPBACK = ("lo",)


class Monitor:
  """Measures one machine and some of its processes, at most once per second.

  ```python
  monitor = Monitor(pathlib.Path("runs/first"))
  usage = monitor.measure({"launcher": os.getpid()})
  usage.memory_used_bytes, usage.processes["launcher"].cpu_cores
  ```
  """

  def __init__(self, folder: pathlib.Path):
    """Measures nothing yet.

    Args:
      folder: a folder on the disk to measure.
    """
    self._folder = folder
    self._measured_at_s = self._gpus_asked_at_s = float("-inf")  # monotonic
    self._counters: dict[str, float] = {}  # of the last measurement, by name
    self._usage = machine_usage.MachineUsage()
    self._nvidia_smi = shutil.which("nvidia-smi")
    self._query: subprocess.Popen[str] | None = None
    self._gpus: dict[int, machine_usage.GpuUsage] = {}

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
    counters = dict(self._read_counters())
    memory = dict(self._read_processes(pids, counters))
    before, self._counters = self._counters, counters
    self._measured_at_s = now_s

    def rate(name: str) -> float:
      """Returns the change of a counter per second, or 0 for a new one."""
      count = counters.get(name, 0.0)
      return max(0.0, count - before.get(name, count)) / passed_s

    machine, disk = psutil.virtual_memory(), shutil.disk_usage(self._folder)
    self._usage = machine_usage.MachineUsage(
      cores=psutil.cpu_count() or 1,
      cpu_cores=rate("cpu"),
      memory_bytes=machine.total,
      memory_used_bytes=machine.total - machine.available,
      disk_bytes=disk.total,
      disk_used_bytes=disk.used,
      disk_read_bytes_per_s=rate("read"),
      disk_written_bytes_per_s=rate("written"),
      network_received_bytes_per_s=rate("received"),
      network_sent_bytes_per_s=rate("sent"),
      gpus=self._read_gpus(now_s),
      processes={
        name: machine_usage.ProcessUsage(rate(f"cpu of {name}"), resident)
        for name, resident in memory.items()
      },
    )
    return self._usage

  def _read_counters(self) -> Iterator[tuple[str, float]]:
    """Yields the machine's seconds and bytes since its start."""
    times = psutil.cpu_times()
    # The times of guests are part of `user` and `nice`.
    yield "cpu", sum(times[:3]) + sum(times[5:8])
    # A container may have no disk of its own.
    if disks := psutil.disk_io_counters():
      yield "read", disks.read_bytes
      yield "written", disks.write_bytes
    networks = psutil.net_io_counters(pernic=True)
    outer = [x for name, x in networks.items() if name not in _LOOPBACK]
    yield "received", sum(network.bytes_recv for network in outer)
    yield "sent", sum(network.bytes_sent for network in outer)

  def _read_processes(
    self, pids: Mapping[str, int], counters: dict[str, float]
  ) -> Iterator[tuple[str, int]]:
    """Yields the memory of each process; adds its seconds to the counters."""
    for name, pid in pids.items():
      with contextlib.suppress(psutil.Error):
        process = psutil.Process(pid)
        times = process.cpu_times()
        memory = process.memory_info().rss
        counters[f"cpu of {name}"] = times.user + times.system
        yield name, memory

  def _read_gpus(self, now_s: float) -> dict[int, machine_usage.GpuUsage]:
    """Returns the newest reply of nvidia-smi, without waiting for the next."""
    if self._query is not None and self._query.poll() is not None:
      lines = self._query.communicate()[0].splitlines()
      self._query = None
      with contextlib.suppress(ValueError):  # such as "[N/A]", or an error
        self._gpus = dict(map(_parse_gpu, lines))
    is_due = now_s - self._gpus_asked_at_s >= _GPU_PERIOD_S
    if self._nvidia_smi and self._query is None and is_due:
      self._gpus_asked_at_s = now_s
      with contextlib.suppress(OSError):
        self._query = subprocess.Popen(
          [self._nvidia_smi, *_QUERY],
          stdout=subprocess.PIPE,
          stderr=subprocess.DEVNULL,
          text=True,
        )
    return self._gpus


def _parse_gpu(line: str) -> tuple[int, machine_usage.GpuUsage]:
  """Returns index and load of a GPU, from a line such as '0, 35, 512, 8192'."""
  index, percent, used, total = (int(text) for text in line.split(","))
  return index, machine_usage.GpuUsage(
    percent / 100, used * _MEBIBYTE, total * _MEBIBYTE
  )
