"""Machine: whether this machine has what runs need, a finding per property."""

import importlib.metadata
import os
import pathlib
import re
import resource
import shutil
import tempfile
import time
from collections.abc import Iterator

import psutil

from slipway.launch.checks import memory
from slipway.launch.diagnosis import finding
from slipway.launch.processes import private_network

_FREE_MEMORY = 2 * 2**30  # bytes of a run with two workers and a small replay
_FREE_SHM, _FREE_DISK = 64 * 2**20, 2 * 2**30  # bytes
_OPEN_FILES = 1_024
_SYNC_S = 2.0  # of 8 MiB on a slow disk
_SLOW_CLOCKS = ("hpet", "acpi_pm")  # a call takes microseconds
_EARLIEST_S = 1_735_689_600.0  # 2025-01-01; certificates begin later
_CLOCK = "/sys/devices/system/clocksource/clocksource0/current_clocksource"


def examine(folder: pathlib.Path, play: bool) -> Iterator[finding.Finding]:
  """Yields a finding per property.

  Args:
    folder: folder of runs, or where it would be made.
    play: whether to measure the parts of the data path.
  """
  checks = [_check_hardware, _check_system, _check_packages]
  for check in [*checks, *[_check_data_path] * play]:
    try:
      yield from check(folder)
    except Exception as error:  # a check never ends the others
      name = check.__name__.removeprefix("_check_").replace("_", " ")
      yield finding.problem(name, f"{type(error).__name__}: {error}")


def _check_hardware(_: pathlib.Path) -> Iterator[finding.Finding]:
  text = pathlib.Path("/proc/cpuinfo").read_text()
  flags = {*text.partition("flags")[2].partition("\n")[0].split()}
  found = sorted(flags & {"avx", "avx2", "avx512_bf16", "amx_bf16"})
  advice = "TensorFlow needs avx, and networks take twice as long without avx2"
  text = " ".join(found) or "no vector instructions"
  yield finding.judge("processor", text, "avx2" in flags, advice)
  usable, load = len(os.sched_getaffinity(0)), os.getloadavg()[0]
  text = f"{usable} usable, {load:.1f} threads ran in the last minute"
  advice = "use --mode=single for one core, or end other programs"
  yield finding.judge("cores", text, usable > 1 and load <= usable, advice)
  free = psutil.virtual_memory().available
  advice = "lower replay.capacity, or end other programs"
  text = f"{memory.format_bytes(free)} free"
  yield finding.judge("memory", text, free >= _FREE_MEMORY, advice)
  if not [*pathlib.Path("/dev").glob("nvidia[0-9]*")]:
    yield finding.ok("GPU", "none; networks are computed by the processor")
    return
  from slipway.agents import devices  # loads TensorFlow for seconds

  advice = "make setup GPU=1, with a driver for CUDA 12.2"
  is_used = devices.find_gpu() is not None
  yield finding.judge("GPU", "TensorFlow may use it", is_used, advice)


def _check_system(folder: pathlib.Path) -> Iterator[finding.Finding]:
  free = shutil.disk_usage("/dev/shm").free
  advice = "remove files, or start Docker with --shm-size=1g"
  text = f"{memory.format_bytes(free)} free"
  yield finding.judge("/dev/shm", text, free >= _FREE_SHM, advice)
  limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
  advice = f"ulimit -n {_OPEN_FILES}"
  text = f"{limit:,} per process"
  yield finding.judge("open files", text, limit >= _OPEN_FILES, advice)
  text = f"Linux {os.uname().release}"
  try:
    with private_network.create():
      yield finding.ok("kernel", f"{text}, with private networks")
  except OSError as error:
    yield finding.warning(
      "kernel",
      f"{text} allows no private network ({error}), so other users can read "
      "the replay: docs/troubleshooting.md has the settings",
    )
  source, now = pathlib.Path(_CLOCK).read_text().strip(), time.ctime()
  is_good = source not in _SLOW_CLOCKS and time.time() > _EARLIEST_S
  advice = "set the time, for certificates, or boot with clocksource=tsc"
  yield finding.judge("clock", f"{source}, {now}", is_good, advice)
  while not folder.exists():
    folder = folder.parent
  free, began_s = shutil.disk_usage(folder).free, time.monotonic()
  with tempfile.TemporaryFile(dir=folder) as file:
    file.write(bytes(8 * 2**20))
    os.fsync(file.fileno())
  seconds = time.monotonic() - began_s
  text = f"{memory.format_bytes(free)} free, 8 MiB synced in {seconds:.2g} s"
  is_good = free >= _FREE_DISK and seconds <= _SYNC_S
  advice = "free some space, use another --run_dir, or fewer snapshots"
  yield finding.judge("disk", text, is_good, advice)


def _check_packages(_: pathlib.Path) -> Iterator[finding.Finding]:
  lines = importlib.metadata.requires("slipway") or []
  # Others than 'NAME==VERSION' have a marker or an extra.
  matches = [re.fullmatch(r"([\w.-]+)==([\w.!-]+)", line) for line in lines]
  locked = {match[1]: match[2] for match in matches if match}
  # A local build has a suffix.
  found = {x: importlib.metadata.version(x).partition("+")[0] for x in locked}
  wrong = [
    f"{name} {found[name]}, locked: {version}"
    for name, version in locked.items()
    if found[name] != version
  ]
  text = "; ".join(wrong) or f"{len(locked)} packages have locked versions"
  advice = "use -c requirements.txt or make setup"
  yield finding.judge("versions", text, not wrong, advice)


def _check_data_path(_: pathlib.Path) -> Iterator[finding.Finding]:
  from slipway.launch.doctor import data_path  # loads TensorFlow for seconds

  yield from data_path.check()
