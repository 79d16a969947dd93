"""Machine: whether this machine has what runs need, a line per property."""

import contextlib
import importlib.metadata
import os
import pathlib
import re
import resource
import shutil
import time
from collections.abc import Callable, Iterator

import msgspec
import psutil

from slipway.launch.checks import memory
from slipway.launch.processes import private_network
from slipway.launch.runs import run_folder

OK, WARNING, PROBLEM = "ok", "warning", "problem"

_FREE_MEMORY = 2 * 2**30  # bytes of a run with two workers and a small replay
_FREE_SHM, _FREE_DISK = 64 * 2**20, 2 * 2**30  # bytes
_OPEN_FILES = 1_024
_SYNC_S = 2.0  # of 8 MiB on a slow disk
_SLOW_CLOCKS = ("hpet", "acpi_pm")  # a call takes microseconds
_EARLIEST_S = 1_735_689_600.0  # 2025-01-01; certificates begin later
_CLOCK = "/sys/devices/system/clocksource/clocksource0/current_clocksource"


class Line(msgspec.Struct, frozen=True):
  """One property of the machine.

  Attributes:
    name: name of the property.
    state: `OK`, `WARNING` or `PROBLEM`.
    text: what was found, and what to do about it.
  """

  name: str
  state: str
  text: str


def examine(folder: pathlib.Path) -> Iterator[Line]:
  """Yields a line per property.

  Args:
    folder: folder of runs, or where it would be made.
  """
  yield run_check("processor", _check_processor)
  yield run_check("cores", _check_cores)
  free, size = psutil.virtual_memory().available, memory.machine_bytes()
  yield _compare(
    *("memory", free, _FREE_MEMORY),
    f"{memory.format_bytes(size)} usable, {memory.format_bytes(free)} free",
    "lower replay.capacity, or end other programs",
  )
  yield run_check("/dev/shm", _check_shm)
  soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
  files = f"{soft:,} per process"
  yield _compare(
    "open files", soft, _OPEN_FILES, files, f"ulimit -n {_OPEN_FILES}"
  )
  yield run_check("kernel", _check_kernel)
  yield run_check("versions", _check_versions)
  yield run_check("disk", lambda: _check_disk(folder))
  yield run_check("clock", _check_clock)
  yield run_check("GPU", _check_gpu)


def run_check(name: str, check: Callable[[], tuple[str, str]]) -> Line:
  """Returns the line of a function that returns a state and a text."""
  try:
    return Line(name, *check())
  except Exception as error:  # a check never ends the others
    return Line(name, PROBLEM, f"{type(error).__name__}: {error}")


def _compare(
  name: str, value: float, least: float, text: str, advice: str
) -> Line:
  """Returns a line, with advice if a value is below the least good one."""
  if value >= least:
    return Line(name, OK, text)
  return Line(name, WARNING, f"{text}: {advice}")


def _check_processor() -> tuple[str, str]:
  text = pathlib.Path("/proc/cpuinfo").read_text()
  flags = {*re.findall(r"\w+", text.partition("flags")[2].partition("\n")[0])}
  if "avx" not in flags:
    return PROBLEM, "no AVX, without which TensorFlow does not start"
  if "avx2" not in flags:
    return WARNING, "no AVX2: networks compute at half the speed"
  if {"avx512_bf16", "amx_bf16"} & flags:
    return OK, "AVX2 and bfloat16: nature_cnn_bfloat16 is twice as fast"
  return OK, "AVX2"


def _check_cores() -> tuple[str, str]:
  usable, load = len(os.sched_getaffinity(0)), os.getloadavg()[0]
  text = f"{usable} usable, {load:.1f} threads ran in the last minute"
  if usable < 2:
    return WARNING, f"{text}: workers and trainer share it; use --mode=single"
  if load > usable:
    return WARNING, f"{text}: other programs make runs slower"
  return OK, text


def _check_shm() -> tuple[str, str]:
  found = shutil.disk_usage("/dev/shm")
  free, total = map(memory.format_bytes, (found.free, found.total))
  text = f"{free} of {total} free"
  if found.free < _FREE_SHM:
    return WARNING, f"{text}: remove files, or start Docker with --shm-size=1g"
  return OK, text


def _check_kernel() -> tuple[str, str]:
  release = os.uname().release
  try:
    with private_network.create():
      return OK, f"Linux {release}, with private networks for the replay"
  except OSError as error:
    return WARNING, (
      f"Linux {release} allows no private network ({error}), so other users "
      "can read the replay: docs/troubleshooting.md has the settings"
    )


def _check_versions() -> tuple[str, str]:
  wrong, count = [], 0
  for line in importlib.metadata.requires("slipway") or []:
    # Others than 'NAME==VERSION' have a marker or an extra.
    match = re.match(r"([\w.-]+)==([\w.!-]+)", line)
    if not match or "extra" in line:
      continue
    count += 1
    try:
      found = importlib.metadata.version(match[1])
    except importlib.metadata.PackageNotFoundError:
      found = "missing"
    if found.partition("+")[0] != match[2]:  # a local build has a suffix
      wrong.append(f"{match[1]} {found} (locked: {match[2]})")
  if wrong:
    return WARNING, f"{', '.join(wrong)}: use -c requirements.txt or make setup"
  return OK, f"{count} packages have the locked versions"


def _check_disk(folder: pathlib.Path) -> tuple[str, str]:
  while not folder.exists():
    folder = folder.parent
  free, began_s = shutil.disk_usage(folder).free, time.monotonic()
  path = folder / f".doctor-{os.getpid()}"
  try:
    with open(path, "wb") as file:
      file.write(bytes(8 * 2**20))
      os.fsync(file.fileno())
  finally:
    path.unlink(missing_ok=True)
  seconds = time.monotonic() - began_s
  text = (
    f"{memory.format_bytes(free)} free, 8 MiB synced in {1e3 * seconds:,.0f} ms"
  )
  if free < run_folder.MIN_FREE_BYTES:
    return PROBLEM, f"{text}: no run starts; free some space"
  if free < _FREE_DISK or seconds > _SYNC_S:
    return WARNING, f"{text}: use another --run_dir, or fewer snapshots"
  return OK, text


def _check_clock() -> tuple[str, str]:
  source = "unknown source"
  with contextlib.suppress(OSError):
    source = pathlib.Path(_CLOCK).read_text().strip()
  if time.time() < _EARLIEST_S:
    return PROBLEM, f"it is {time.ctime()}: certificates are not valid yet"
  if source in _SLOW_CLOCKS:
    return WARNING, f"{source}, which is slow: boot with clocksource=tsc"
  return OK, f"{source}, {time.strftime('%Y-%m-%d %H:%M:%S')}"


def _check_gpu() -> tuple[str, str]:
  cards = [*pathlib.Path("/dev").glob("nvidia[0-9]*")]
  if not cards:
    return OK, "none; networks are computed by the processor"
  from slipway.agents import devices  # loads TensorFlow for seconds

  if devices.find_gpu():
    return OK, f"{len(cards)}, which TensorFlow uses"
  return WARNING, (
    f"{len(cards)}, which TensorFlow does not use: make setup GPU=1, with a "
    "driver for CUDA 12.2"
  )
