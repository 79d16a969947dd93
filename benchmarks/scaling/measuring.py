"""Benchmark `scaling`: speed and memory of a run by number of workers."""

import os
import pathlib
from collections.abc import Sequence

from benchmarks import goal, report
from benchmarks.scaling import one_run, picture
from slipway.configs import apex_dqn

TREE_GOAL_MB = 1_000.0  # PSS of all processes, with 4 workers
WORKER_GOAL_MB = 130.0  # private memory of one
START_UP_GOAL_S = 10.0  # with any number of workers

_GOAL_WORKERS = 4
_BUSY = 0.9  # of a core, or of all cores: above this, it is the bottleneck
_OTHERS = 0.1  # of a core: above this, the report mentions other processes

_METHOD = """\
`slipway train --config=apex_dqn:cartpole` without a target,
with as many workers as the first column says, of {environments} environments
each, for {seconds:g} s after learning began, on {cores} cores: all processes,
the evaluator included. Every transition is sampled 8 times, so an update of 64
stands for 8 environment steps, and the side that is ahead waits for the other.
Samples per insert, and CPU time, are of those seconds; the age of the variables
that the workers act on is a mean of looks a second apart. Memory is read from
/proc/PID/smaps_rollup at their end: PSS, where of what is shared each process
has its share, and what is private; MB are 1e6 bytes. Pages of the libraries'
files are shared with whatever else runs on them, so let nothing. Start-up is
from the command to the first update, *import* what `import tensorflow` takes in
a process of its own right before. Medians of {runs} repetitions.

Others' are cores that were busy with anything else. What limits is the first
of: the machine's cores, where {busy:.0%} of them are busy; the role whose
busiest process uses {busy:.0%} of a core; else no process is busy all the time,
and they wait for one another.

![Steps and memory against workers](scaling.png)"""


def measure(
  runs: int,
  folder: pathlib.Path,
  workers: Sequence[int] = (1, 2, 4, 8),
  seconds: float = 30.0,
  overrides: Sequence[str] = (),
) -> report.Report:
  """Runs the program with each number of workers, and draws the results.

  Args:
    runs: number of repetitions.
    folder: folder in which scaling.png is saved.
    workers: numbers of worker processes.
    seconds: duration of the measurement of each run.
    overrides: further flags of the runs.
  """
  raw = [
    {
      "repetition": repetition,
      "workers": count,
      **one_run.measure(count, seconds, overrides),
    }
    for repetition in range(runs)
    for count in workers
  ]
  picture.draw(raw, folder / "scaling.png")
  return report.Report(
    name="scaling",
    title="Scaling: speed and memory of a run against its workers",
    method=_METHOD.format(
      seconds=seconds,
      cores=_cores(),
      runs=runs,
      busy=_BUSY,
      environments=apex_dqn.get_config().topology.environments_per_worker,
    ),
    raw=raw,
    medians=[_speeds(raw, count) for count in workers],
    more=[
      [
        _memory(raw, role, workers)
        for role in one_run.ROLES
        if _is_in(raw, role)
      ]
    ],
    goals=_goals(raw, workers),
  )


def _speeds(raw: Sequence[report.Row], workers: int) -> report.Row:
  """Returns the row of a number of workers: speeds, cores and memory."""
  found = {
    title: report.median(raw, column, workers=workers)
    for title, column in (
      ("environment steps/s", "env_steps_per_s"),
      ("updates/s", "trainer_steps_per_s"),
      ("samples an insert", "samples_per_insert"),
      ("variables' age, s", "variables_age_s"),
      ("cores busy", "cores"),
      ("others'", "others_cores"),
      ("trainer's", "trainer_cores"),
      ("workers'", "worker_cores"),
      ("PSS of all, MB", "tree_pss_mb"),
      ("a worker's private MB", "worker_private_mb"),
      ("start-up, s", "start_up_s"),
      ("import, s", "import_s"),
    )
  }
  return {"workers": workers, **found, "limited by": _limit(raw, workers)}


def _limit(raw: Sequence[report.Row], workers: int) -> str:
  """Returns the component or the cores that limit a run's speed."""
  cores = _cores()
  own, others = (
    report.median(raw, column, workers=workers)
    for column in ("cores", "others_cores")
  )
  if own + others >= _BUSY * cores:
    return f"the {cores} cores" + (
      f", of which others took {others:.1f}" if others > _OTHERS else ""
    )
  for role in ("trainer", "worker", "proxy", "evaluator"):
    used = report.median(raw, f"{role}_cores", workers=workers)
    if used / (workers if role == "worker" else 1) >= _BUSY:
      return f"the {role}s" if role == "worker" else f"the {role}"
  return "no process: they wait for one another"


def _memory(
  raw: Sequence[report.Row], role: str, workers: Sequence[int]
) -> report.Row:
  """Returns the row of a role: its memory by number of workers."""
  return {
    "memory of": role if role != "worker" else "all workers",
    **{
      f"PSS MB, workers: {count}": report.median(
        raw, f"{role}_pss_mb", workers=count
      )
      for count in workers
    },
    "most private MB of one": max(row[f"{role}_private_mb"] for row in raw),
  }


def _is_in(raw: Sequence[report.Row], role: str) -> bool:
  """Returns whether the runs had processes of a role."""
  return all(row[f"{role}_pss_mb"] is not None for row in raw)


def _goals(raw: Sequence[report.Row], workers: Sequence[int]) -> list[str]:
  """Returns the lines of the goals."""
  lines = []
  if _GOAL_WORKERS in workers:
    tree_mb = report.median(raw, "tree_pss_mb", workers=_GOAL_WORKERS)
    lines.append(
      goal.at_most(
        f"{tree_mb:,.0f} MB of PSS in all processes with {_GOAL_WORKERS} "
        f"workers, goal under {TREE_GOAL_MB:,.0f} MB",
        tree_mb,
        TREE_GOAL_MB,
      )
    )
  worker_mb = max(row["worker_private_mb"] for row in raw)
  start_up_s = max(row["start_up_s"] for row in raw)
  return [
    *lines,
    goal.at_most(
      f"{worker_mb:.0f} MB private in the largest worker, goal under "
      f"{WORKER_GOAL_MB:.0f} MB",
      worker_mb,
      WORKER_GOAL_MB,
    ),
    goal.at_most(
      f"{start_up_s:.1f} s from the command to the first update at most, goal "
      f"under {START_UP_GOAL_S:.0f} s",
      start_up_s,
      START_UP_GOAL_S,
    ),
  ]


def _cores() -> int:
  """Returns the number of cores that this process may use."""
  return len(os.sched_getaffinity(0))
