"""One run of the benchmark `scaling`, measured from outside."""

import contextlib
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
import typing
from collections.abc import Iterator, Sequence

from benchmarks import machine, running, tree
from slipway.launch.runs import run_status

ROLES = (
  tree.LAUNCHER,
  tree.FORK_SERVER,
  "trainer",
  "proxy",
  "worker",
  "evaluator",
)

_LOOK_S = 1.0
_UP_WITHIN_S = 120.0


def measure(
  workers: int, seconds: float, overrides: Sequence[str] = ()
) -> dict[str, float | None]:
  """Starts a run, measures it over some seconds, and stops it.

  Args:
    workers: number of worker processes.
    seconds: duration of the measurement, after the first update.
    overrides: further flags of the run.

  Returns:
    Values by column of the CSV file.
  """
  import_s = _import_s()
  with _started(workers, overrides) as run:
    start_up_s = _wait_until_it_learns(run)
    run.watch_until_progress()
    row = _measure_window(run, seconds)
  return {"import_s": import_s, "start_up_s": start_up_s, **row}


def measure_start_up(workers: int) -> dict[str, float]:
  """Starts a run, and stops it after the first update.

  Args:
    workers: number of worker processes.

  Returns:
    Values of the start-up, by column of the CSV file.
  """
  import_s = _import_s()
  with _started(workers, ()) as run:
    return {"import_s": import_s, "start_up_s": _wait_until_it_learns(run)}


@contextlib.contextmanager
def _started(
  workers: int, overrides: Sequence[str]
) -> Iterator[running.Running]:
  """Starts a run without a target return, and stops it after the block."""
  with tempfile.TemporaryDirectory() as folder:
    path = pathlib.Path(folder) / "a-run"
    flags = (
      *("--config=apex_dqn:cartpole", "--name=a-run"),
      *(f"--run_dir={folder}", f"--config.topology.workers={workers}"),
      *("--config.limits.target_return=inf", *overrides),
    )
    with running.start_run(flags, path) as run:
      yield run
      run.launcher.terminate()
      run.wait_for_end(time.monotonic())


def _import_s() -> float:
  """Returns the seconds in which a new process imports TensorFlow."""
  start_s = time.monotonic()
  subprocess.run(
    [sys.executable, "-c", "import tensorflow"],
    check=True,
    capture_output=True,
  )
  return time.monotonic() - start_s


def _wait_until_it_learns(run: running.Running) -> float:
  """Waits for the first update; returns the seconds since the command."""
  while not run.statuses or run.statuses[-1].start_up_s is None:
    run.watch(0.1)
    if time.monotonic() > run.began_s + _UP_WITHIN_S:
      raise RuntimeError(f"a run did not learn within {_UP_WITHIN_S:.0f} s")
  return typing.cast(float, run.statuses[-1].start_up_s)


def _measure_window(
  run: running.Running, seconds: float
) -> dict[str, float | None]:
  """Measures a run over some seconds; returns values by column."""
  start_s, before = time.monotonic(), _status(run)
  busy_before_s = machine.busy_s()
  cpu_before = tree.cpu_s(tree.members(run.launcher.pid, run.pids()))
  ages_s = []
  while (left_s := start_s + seconds - time.monotonic()) > 0:
    time.sleep(min(_LOOK_S, left_s))
    ages_s.append(_status(run).variables.mean_age_s)
  passed_s, after = time.monotonic() - start_s, _status(run)
  busy_s = machine.busy_s() - busy_before_s
  members = tree.members(run.launcher.pid, run.pids())
  cpu_after = tree.cpu_s(members)
  cores = {
    role: (cpu_after.get(role, 0.0) - cpu_before.get(role, 0.0)) / passed_s
    for role in ROLES
  }
  table, table_before = after.replay, before.replay
  assert table is not None and table_before is not None
  inserted = table.inserted - table_before.inserted
  return {
    "env_steps_per_s": (after.env_steps - before.env_steps) / passed_s,
    "trainer_steps_per_s": (after.trainer_steps - before.trainer_steps)
    / passed_s,
    "samples_per_insert": (table.sampled - table_before.sampled)
    / max(1, inserted),
    "variables_age_s": statistics.fmean(ages_s),
    "cores": sum(cores.values()),
    "others_cores": max(0.0, busy_s / passed_s - sum(cores.values())),
    "tree_pss_mb": sum(member.pss_mb for member in members),
    "tree_private_mb": sum(member.private_mb for member in members),
    **{f"{role}_cores": value for role, value in cores.items()},
    **_memory_columns(members),
  }


def _status(run: running.Running) -> run_status.RunStatus:
  """Returns the status of a run, once the launcher is up."""
  for _ in range(10):
    if (status := run.status()) is not None:
      return status
  raise RuntimeError("the launcher of a run did not reply")


def _memory_columns(members: list[tree.Member]) -> dict[str, float | None]:
  """Returns the memory of each role, by column of the CSV file.

  The columns are the PSS of all its processes and the largest private memory.
  The values are None if the run has no such process.
  """
  columns: dict[str, float | None] = {}
  for role in ROLES:
    those = [member for member in members if member.role == role]
    columns[f"{role}_pss_mb"] = sum(m.pss_mb for m in those) if those else None
    columns[f"{role}_private_mb"] = max(
      (m.private_mb for m in those), default=None
    )
  return columns
