"""Resumes: a run that was stopped, or killed, goes on where it was."""

import os
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

pytestmark = pytest.mark.timeout(300)

_SNAPSHOTS = "--config.snapshot.period_s=3"
_MORE_STEPS = 1_000  # of the trainer
_COUNTED = {  # columns of curves.csv, and what they count on from
  "wall_s": "wall_s",
  "env_steps": "environment_steps",
  "trainer_steps": "trainer_steps",
}


def test_a_run_is_stopped_then_killed_and_goes_on_each_time(start_run):
  first = start_run(_SNAPSHOTS)
  first.wait_until_learning()
  first.wait_until(lambda: len(first.evaluations) >= 3)
  first.launcher.terminate()
  assert first.wait() == 0, first.stderr
  assert first.stderr == ""
  rows, summary = first.evaluations, first.summary
  stopped, counters = _newest(first)
  # Of a run that ends in order, nothing is lost.
  assert counters.environment_steps == summary["env_steps"]
  assert counters.trainer_steps == summary["trainer_steps"]
  assert counters.evaluations == len(rows)
  assert counters.best_eval_return == summary["best_eval_return"]

  # A table apart can go on from one that was with the trainer.
  second = start_run("--config.topology.replay=own_process", resume=True)
  second.wait_until(lambda: _newest(second)[0] > stopped)
  half_written = _kill_while_it_saves(second)
  _check_goes_on(second, stopped, counters, rows)
  rows = second.evaluations
  killed, counters = _newest(second)
  # Lost is what came since the last one, whose successor was due already.
  assert killed == half_written - 1

  limit = counters.trainer_steps + _MORE_STEPS
  third = start_run(f"--config.limits.trainer_steps={limit}", resume=True)
  assert third.wait() == 0, third.stderr
  assert third.stderr == ""
  third.check_nothing_left()
  _check_goes_on(third, killed, counters, rows)
  summary = third.summary
  assert summary["stopped_because"] == "trainer_steps"
  assert summary["trainer_steps"] == limit
  assert summary["env_steps"] > counters.environment_steps
  assert summary["resumes"] == 2
  # Each is the mean of an evaluation's repetition, which has no row.
  assert summary["best_eval_return"] >= counters.best_eval_return
  version, _ = best_variables.load(_folder(third).best)
  # Of an evaluation, maybe of one that was lost with the second life.
  evaluated = (*rows, *third.evaluations)
  assert version in {row["variables_version"] for row in evaluated}
  # What was half-written has gone, and nobody has begun with it.
  assert not list(_folder(third).snapshots.glob(".0*"))
  for node in ("trainer/0", "replay/0"):
    assert "Traceback" not in third.log(node)


def _check_goes_on(run, number, counters, rows):
  """Asserts that a run counts on from a snapshot.

  Args:
    run: that was resumed.
    number: of the snapshot from which it goes on.
    counters: that this had.
    rows: of curves.csv before.
  """
  assert (
    f"resumes from snapshot {number}: "
    f"{counters.environment_steps:,} environment steps, "
    f"{counters.trainer_steps:,} trainer steps" in run.stdout
  )
  assert f"resumes from snapshot {number}" in run.log("trainer/0")
  kept, new = (
    run.evaluations[: counters.evaluations],
    run.evaluations[counters.evaluations :],
  )
  assert kept == rows[: counters.evaluations]
  assert new
  for row in new:
    assert row["variables_version"] >= counters.variables_version
  for column, field in _COUNTED.items():
    values = [row[column] for row in (*kept, *new)]
    assert values == sorted(values), column
    assert new[0][column] >= getattr(counters, field), column


def _kill_while_it_saves(run):
  """Kills all processes at once; returns the number of the snapshot."""
  group = run.launcher.pid
  while True:
    deadline_s = time.monotonic() + 60.0
    while (half := _half_written(run)) is None:
      assert time.monotonic() < deadline_s, run.stdout
      time.sleep(0.001)
    os.killpg(group, signal.SIGSTOP)  # It may be whole by now.
    if _half_written(run) == half:
      break
    os.killpg(group, signal.SIGCONT)
  processes = run.processes()
  os.killpg(group, signal.SIGKILL)
  assert run.wait() == -signal.SIGKILL
  psutil.wait_procs(processes, timeout=30.0)
  for folder in run.memory():  # There is nobody left to remove it.
    shutil.rmtree(folder)
  return half


def _half_written(run):
  """Number of the snapshot that is being written; None: none is."""
  folder = _folder(run).snapshots
  whole = max(int(path.name) for path in folder.glob("0*"))
  hidden = [int(path.name[1:]) for path in folder.glob(".0*")]
  # One that is older than others is being removed.
  return next((number for number in hidden if number > whole), None)


def _newest(run):
  """Number and counters of the newest snapshot."""
  snapshot = snapshot_store.SnapshotStore(_folder(run)).newest()
  return snapshot.number, run_counters.RunCounters.read(snapshot.path)


def _folder(run):
  return run_folder.RunFolder.open(run.path)
