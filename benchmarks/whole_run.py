"""Whole run: runs the program like a user, and measures it from outside."""

import contextlib
import pathlib
import statistics
import subprocess
import sys
import time
import typing
from collections.abc import Sequence

import psutil

from benchmarks import machine
from slipway.launch.runs import run_folder, run_status

_LOOK_S = 1.0  # at least
# A look reads the page tables of all processes, which takes the kernel longer
# the more memory they have. With this pause it takes 5 % of a core at most.
_LOOKS_PAUSE = 19.0  # times the duration of the look before
_END_S = 90.0  # for the start-up and the stop, besides the run's own limit


class Watched(typing.NamedTuple):
  """Measurements of a run that has ended.

  Attributes:
    summary: its last counts and mean rates.
    peak_mib: largest memory (PSS) of all its processes together, in MiB.
    mean_mib: mean of that memory over the run's second half, in MiB.
    processes: number of processes when the memory was largest.
    cpu_s: CPU seconds of all its processes.
  """

  summary: run_status.RunStatus
  peak_mib: float
  mean_mib: float
  processes: int
  cpu_s: float


def run(
  config: str,
  overrides: Sequence[str],
  limit_s: float,
  run_dir: pathlib.Path,
  name: str,
  may_reach_limit: bool = False,
) -> Watched:
  """Runs `slipway train` with a time limit, and waits for its end.

  Args:
    config: value of --config.
    overrides: further flags.
    limit_s: wall-clock limit of the run, in seconds.
    run_dir: parent of the run's folder.
    name: name of the run's folder.
    may_reach_limit: whether a run that the time limit has ended is valid.

  Raises:
    RuntimeError: the run failed, and the message has the end of its output; or
      the time limit ended it, so its results are of fewer steps than those that
      it is compared with.
  """
  command = [
    # The run stops if this process is killed.
    *("setpriv", "--pdeathsig", "TERM", "--"),
    *(
      sys.executable,
      "-m",
      "slipway.launch.commands.train",
      f"--config={config}",
    ),
    f"--config.limits.wall_clock_s={limit_s}",
    *(f"--run_dir={run_dir}", f"--name={name}", *overrides),
  ]
  run_dir.mkdir(parents=True, exist_ok=True)
  output = run_dir / f"{name}.txt"
  with (
    open(output, "w") as file,
    subprocess.Popen(
      command, cwd=machine.ROOT, stdout=file, stderr=subprocess.STDOUT
    ) as process,
  ):
    looks = _watch(process, limit_s + _END_S)
  if process.returncode:
    end = output.read_text(errors="replace").splitlines()[-5:]
    raise RuntimeError(
      f"run {name} ended with status {process.returncode}: {' / '.join(end)}"
    )
  summary = run_status.read_summary(run_folder.RunFolder(run_dir / name))
  if not may_reach_limit and summary.stopped_because == "wall_clock_s":
    raise RuntimeError(
      f"run {name} was ended by its limit of {limit_s} s after "
      f"{summary.env_steps:,} environment steps: repeat it on a faster or "
      "idle machine"
    )
  peak = max(looks, key=lambda look: look.mib)
  half = looks[len(looks) // 2 :]
  return Watched(
    summary=summary,
    peak_mib=peak.mib,
    mean_mib=statistics.fmean(look.mib for look in half),
    processes=peak.processes,
    cpu_s=max(look.cpu_s for look in looks),
  )


class _Look(typing.NamedTuple):
  """The memory, number and CPU seconds of a run's processes at one time."""

  mib: float
  processes: int
  cpu_s: float


def _watch(process: subprocess.Popen, limit_s: float) -> list[_Look]:
  """Measures all processes of a run until it ends; stops it after the limit."""
  looks, deadline_s = [], time.monotonic() + limit_s
  while True:
    began_s = time.monotonic()
    looks.append(_look(process.pid))
    pause_s = _LOOKS_PAUSE * (time.monotonic() - began_s)
    try:
      process.wait(max(_LOOK_S, pause_s))
      return looks
    except subprocess.TimeoutExpired:
      if time.monotonic() > deadline_s:
        process.terminate()
        deadline_s = time.monotonic() + _END_S


def _look(pid: int) -> _Look:
  """Measures a process and all its descendants."""
  mib = cpu_s = 0.0
  count = 0
  with contextlib.suppress(psutil.NoSuchProcess):
    root = psutil.Process(pid)
    for process in (root, *root.children(recursive=True)):
      with contextlib.suppress(psutil.Error):
        times = process.cpu_times()
        cpu_s += times.user + times.system
        mib += process.memory_full_info().pss / 2**20
        count += 1
  return _Look(mib, count, cpu_s)
