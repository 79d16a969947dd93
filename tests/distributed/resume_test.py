"""Resumes: a stopped or killed run continues from its last snapshot."""

import pathlib
import shutil
import signal
import time

import psutil
import pytest

from slipway.launch.runs import (
  best_variables,
  run_counters,
  run_folder,
  snapshot_store,
)

pytestmark = [pytest.mark.runs, pytest.mark.timeout(300)]

_SNAPSHOTS = "--config.snapshot.period_s=3"
_MORE_STEPS = 1_000  # trainer steps
# Columns of curves.csv that continue from the counts of the same names.
_COUNTED = ("wall_s", "env_steps", "trainer_steps")


def test_a_run_is_stopped_then_killed_and_resumed_each_time(start_run):
  first = start_run(_SNAPSHOTS)
  first.wait_until_learning()
  first.wait_until(lambda: len(first.evaluations) >= 3)
  first.launcher.terminate()
  assert first.wait() == 0, first.stderr
  assert first.stderr == ""
  rows, summary = first.evaluations, first.summary
  stopped, counters = _newest(first)
  # A run that stops in order loses nothing.
  assert counters.status.env_steps == summary["env_steps"]
  assert counters.status.trainer_steps == summary["trainer_steps"]
  assert counters.status.evaluation.count == len(rows)
  assert (
    counters.status.evaluation.best_mean_return
    == summary["evaluation"]["best_mean_return"]
  )

  # A replay server with its own process restores the table that was in the
  # trainer's process.
  second = start_run("--config.topology.replay=own_process", resume=True)
  second.wait_until(lambda: _newest(second)[0] > stopped)
  half_written = _kill_during_snapshot(second)
  _check_continues(second, stopped, counters, rows)
  rows = second.evaluations
  killed, counters = _newest(second)
  # Only work since the newest complete snapshot is lost: the next snapshot was
  # being written.
  assert killed == half_written - 1

  limit = counters.status.trainer_steps + _MORE_STEPS
  third = start_run(f"--config.limits.trainer_steps={limit}", resume=True)
  assert third.wait() == 0, third.stderr
  assert third.stderr == ""
  third.check_nothing_left()
  _check_continues(third, killed, counters, rows)
  summary = third.summary
  assert summary["stopped_because"] == "trainer_steps"
  assert summary["trainer_steps"] == limit
  assert summary["env_steps"] > counters.status.env_steps
  assert summary["resumes"] == 2
  # Both are mean returns of a repeated evaluation, which has no row in
  # curves.csv.
  assert (
    summary["evaluation"]["best_mean_return"]
    >= counters.status.evaluation.best_mean_return
  )
  version, _ = best_variables.load(_folder(third).best)
  # The best variables are those of an evaluation, perhaps of one that was lost
  # when the second run was killed.
  evaluated = (*rows, *third.evaluations)
  assert version in {row["variables_version"] for row in evaluated}
  # The half-written snapshot is removed, and no node has read it.
  assert not list(_folder(third).snapshots.glob(".0*"))
  for node in ("trainer/0", "replay/0"):
    assert "Traceback" not in third.log(node)


def _check_continues(run, number, counters, rows):
  """Asserts that a resumed run continues to count from a snapshot.

  Args:
    run: the resumed run.
    number: number of the snapshot from which the run resumes.
    counters: counters of that snapshot.
    rows: rows of curves.csv before the resume.
  """
  assert (
    f"resumes from snapshot {number}: "
    f"{counters.status.env_steps:,} environment steps, "
    f"{counters.status.trainer_steps:,} trainer steps" in run.stdout
  )
  assert f"resumes from snapshot {number}" in run.log("trainer/0")
  kept, new = (
    run.evaluations[: counters.status.evaluation.count],
    run.evaluations[counters.status.evaluation.count :],
  )
  assert kept == rows[: counters.status.evaluation.count]
  assert new
  for row in new:
    assert row["variables_version"] >= counters.status.variables.version
  for column in _COUNTED:
    values = [row[column] for row in (*kept, *new)]
    assert values == sorted(values), column
    assert new[0][column] >= getattr(counters.status, column), column


def _kill_during_snapshot(run):
  """Kills all processes at once, while a snapshot is being written.

  Returns:
    The number of the half-written snapshot.
  """
  while True:
    deadline_s = time.monotonic() + 60.0
    while (half := _half_written(run)) is None:
      assert time.monotonic() < deadline_s, run.stdout
      time.sleep(0.001)
    processes = run.processes()
    for process in processes:
      process.suspend()
    while not all(map(_is_stopped, processes)):
      time.sleep(0.001)  # A thread stops when its system call has ended.
    if _half_written(run) == half:  # It may be complete by now.
      break
    for process in processes:
      process.resume()
  for process in processes:
    process.kill()
  assert run.wait() == -signal.SIGKILL
  _, alive = psutil.wait_procs(processes, timeout=30.0)
  assert not alive
  for folder in run.memory():  # No process is left to remove it.
    shutil.rmtree(folder)
  return half


def _is_stopped(process):
  """Returns whether no thread of a process runs."""
  threads = pathlib.Path(f"/proc/{process.pid}/task").glob("*/stat")
  try:
    states = {path.read_text().rpartition(") ")[2][0] for path in threads}
  except OSError:  # A thread has ended.
    return False
  return states <= set("TXZ")


def _half_written(run):
  """Returns the number of the snapshot that is being written, or None."""
  folder = _folder(run).snapshots
  whole = max(int(path.name) for path in folder.glob("0*"))
  hidden = [int(path.name[1:]) for path in folder.glob(".0*")]
  # A hidden folder with a lower number is an old snapshot in removal.
  return next((number for number in hidden if number > whole), None)


def _newest(run):
  """Returns the number and the counters of the newest snapshot."""
  snapshot = snapshot_store.SnapshotStore(_folder(run)).newest()
  return snapshot.number, run_counters.RunCounters.read(snapshot.path)


def _folder(run):
  return run_folder.RunFolder.open(run.path)
