"""Machine: describes hardware and versions, for the head of a results page."""

import datetime
import os
import pathlib
import platform
import subprocess
from importlib import metadata

import psutil

ROOT = pathlib.Path(__file__).resolve().parents[1]

UNKNOWN = "unknown: not a git checkout"  # instead of a commit
CHANGED = " with changes"  # end of the commit of a checkout with changed files
_PACKAGES = (
  "tensorflow-cpu",
  "dm-reverb",
  "dm-launchpad-nightly",
  "dm-acme",
  "dm-sonnet",
  "numpy",
  "gymnasium",
  "ale-py",
)


def describe() -> dict[str, str]:
  """Returns the commit, date, processor, memory, load and versions, by name."""
  load_1_min = os.getloadavg()[0]
  return {
    "commit": commit(),
    "date": datetime.date.today().isoformat(),
    "processor": f"{_processor()}, {psutil.cpu_count()} cores",
    "memory": f"{psutil.virtual_memory().total / 2**30:.0f} GiB",
    "load before": f"{load_1_min:.1f} runnable threads, mean of 1 minute",
    "python": platform.python_version(),
    **{name: metadata.version(name) for name in _PACKAGES},
  }


def busy_s() -> float:
  """Returns the busy seconds of all cores since the machine's start.

  Time that the host used for other virtual machines counts as busy.
  """
  times = psutil.cpu_times()
  return sum(times) - times.idle - times.iowait - times.guest - times.guest_nice


def commit() -> str:
  """Returns the checkout's commit, with a mark if files were changed."""
  head = _git("rev-parse", "--short=12", "HEAD")
  if not head:
    return UNKNOWN
  # Results are written while others are still measured.
  changed = _git("status", "--porcelain", "--", ".", ":!benchmarks/results")
  return f"{head}{CHANGED}" if changed else head


def is_clean(commit: str) -> bool:
  """Returns whether `commit`, of a result, is exactly the measured code.

  It is not if files were changed, or without git.
  """
  return commit != UNKNOWN and not commit.endswith(CHANGED)


def _git(*arguments: str) -> str:
  """Returns the output of a git command; '' if it fails."""
  try:
    done = subprocess.run(
      ["git", *arguments], cwd=ROOT, capture_output=True, text=True
    )
  except OSError:
    return ""
  return done.stdout.strip() if done.returncode == 0 else ""


def _processor() -> str:
  """Returns the name of the processor's model."""
  cpuinfo = pathlib.Path("/proc/cpuinfo")
  if cpuinfo.is_file():
    for line in cpuinfo.read_text().splitlines():
      if line.startswith("model name"):
        return line.split(":", 1)[1].strip()
  return platform.processor() or platform.machine()
