"""Benchmark `outages`: seconds without progress after a process is killed."""

import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence

from benchmarks import goal, machine, report, running

WORKER_GOAL_S = 3.0
START_UP_GOAL_S = 12.0
STOP_GOAL_S = 10.0

LAUNCHER = "launcher"  # the last one that is killed, if it is
# Processes that are killed in each topology.
FAULTS = {
  "with_trainer": (
    *("worker/1", "proxy/0", "evaluator/0", "trainer/0"),
    LAUNCHER,
  ),
  "own_process": ("replay/0", "trainer/0"),
}

_SNAPSHOT_S = 5.0  # period
# The count that rises once a role does its work again.
_WORK = {
  "worker": "worker/1",
  "proxy": "reconnects",
  "evaluator": "evaluations",
  "trainer": "trainer_steps",
  "replay": "items_confirmed",  # by new workers, since the run is resumed
}
_FLAGS = (
  "--config=apex_dqn:cartpole",
  "--config.limits.target_return=inf",
  f"--config.snapshot.period_s={_SNAPSHOT_S}",
)
_TITLES = {
  "back_s": "back, s",
  "env_steps_s": "environment steps again, s",
  "trainer_steps_s": "updates again, s",
  "items_lost": "items lost",
  "env_steps_lost": "environment steps lost",
  "trainer_steps_lost": "updates lost",
}
_START = "start"
_STOPS = ("SIGTERM", "slipway control stop")
_MEASURED = ("start_up_s", *_TITLES, "stop_s")
_POLL_S = 0.1

_METHOD = """\
`slipway train --config=apex_dqn:cartpole` without a target
and with a snapshot every {period_s:g} s, once with the table in the trainer's
process and once with `topology.replay=own_process`. One process after another
gets a SIGKILL, at a random moment of a snapshot's period; its effects are seen
in the run's status, which is polled every 20 ms, and to which nodes report
every 250 ms. *Back*: the process does its work again (worker: its items are
confirmed; proxy and replay: workers write to it; evaluator: it has evaluated;
trainer: it learns). *Again*: the end of the last pause of more than {pause_s:g}
s; 0 if there was none. Lost are items in
flight, and the environment steps and updates since the snapshot from which the
run resumes when a process with a state dies. When the launcher is killed, its
nodes end, which is its *back*; the other seconds are those since the command
that resumes the run. {runs}
repetitions."""


def measure(
  runs: int, faults: Mapping[str, Sequence[str]] = FAULTS, seed: int = 1
) -> report.Report:
  """Kills processes of runs, and measures when progress resumes.

  The starts and stops of these runs are measured, too.

  Args:
    runs: number of repetitions.
    faults: processes to kill, by the value of topology.replay.
    seed: seed of the random times of the kills.
  """
  chance = random.Random(seed)
  raw = []
  for repetition in range(runs):
    for topology, victims in faults.items():
      with tempfile.TemporaryDirectory() as folder:
        of = {"repetition": repetition, "replay": topology}
        rows = _measure(topology, victims, pathlib.Path(folder), chance)
        raw += [{**of, **row} for row in rows]
  return report.Report(
    name="outages",
    title="Killed processes: seconds until steps flow again",
    method=_METHOD.format(
      period_s=_SNAPSHOT_S, pause_s=running.PAUSE_S, runs=runs
    ),
    raw=raw,
    medians=_medians(raw, faults),
    goals=_goals(raw),
  )


def _measure(
  topology: str,
  victims: Sequence[str],
  folder: pathlib.Path,
  chance: random.Random,
) -> Iterator[report.Row]:
  """Runs one program, and yields a row per start, kill and stop.

  Args:
    topology: value of topology.replay.
    victims: processes to kill, in this order.
    folder: parent of the run's folder.
    chance: source of the times of the kills.
  """
  path = folder / "a-run"
  begin = (
    *(*_FLAGS, f"--config.topology.replay={topology}"),
    *("--name=a-run", f"--run_dir={folder}"),
  )
  with running.start_run(begin, path) as run:
    run.watch_until_progress()
    yield _row(_START, start_up_s=run.statuses[-1].start_up_s)
    for victim in victims:
      run.watch(chance.uniform(0.0, _SNAPSHOT_S))
      if victim == LAUNCHER:
        break
      yield _kill(run, victim)
    else:
      at_s = time.monotonic()
      run.launcher.send_signal(signal.SIGTERM)
      yield _row(_STOPS[0], stop_s=run.wait_for_end(at_s))
      return
    before = run.statuses[-1].counts
    ended_s = run.kill_launcher()
  with running.start_run([f"--resume={path}"], path) as run:
    run.watch_until_progress()
    yield _row(
      LAUNCHER,
      back_s=ended_s,
      env_steps_s=run.first_rise_s("env_steps", run.began_s),
      trainer_steps_s=run.first_rise_s("trainer_steps", run.began_s),
      **_lost_since(before, run.statuses[0].counts),
    )
    at_s = time.monotonic()
    stop = [
      sys.executable,
      "-m",
      "slipway.launch.commands.cli",
      "control",
      f"--run={path}",
      "stop",
    ]
    subprocess.run(stop, cwd=machine.ROOT, check=True, capture_output=True)
    yield _row(_STOPS[1], stop_s=run.wait_for_end(at_s))


def _kill(run: running.Running, node: str) -> report.Row:
  """Kills a node, waits until the run makes progress again; returns the row."""
  at_s = run.kill(node)
  run.watch_until_progress()
  work = _WORK[node.partition("/")[0]]
  # It may be back after the others.
  while (back_s := run.first_rise_s(work, at_s)) is None:
    run.watch(_POLL_S)
  return _row(
    node,
    back_s=back_s,
    env_steps_s=run.pause_end_s("env_steps", at_s),
    trainer_steps_s=run.pause_end_s("trainer_steps", at_s),
    # Those of a resumed run begin again with its snapshot's.
    items_lost=max(0, run.growth_since("items_lost", at_s)),
    env_steps_lost=run.fall_since("env_steps", at_s),
    trainer_steps_lost=run.fall_since("trainer_steps", at_s),
  )


def _lost_since(
  before: Mapping[str, int], after: Mapping[str, int]
) -> dict[str, int]:
  """Returns the progress that a resumed run lost since its last seen status."""
  # The resumed run counts lost items from 0, so those in flight are unknown.
  return {
    "env_steps_lost": max(0, before["env_steps"] - after["env_steps"]),
    "trainer_steps_lost": max(
      0, before["trainer_steps"] - after["trainer_steps"]
    ),
  }


def _row(event: str, **measured: float | None) -> report.Row:
  """Makes a row of measurements; columns without a value are None."""
  return {"event": event, **{name: measured.get(name) for name in _MEASURED}}


def _medians(
  raw: Sequence[report.Row], faults: Mapping[str, Sequence[str]]
) -> list[report.Row]:
  """Returns one row per killed process, with the medians of its columns."""
  return [
    {
      "killed": victim,
      "replay": topology,
      **{
        title: _median(raw, name, replay=topology, event=victim)
        for name, title in _TITLES.items()
      },
    }
    for topology, victims in faults.items()
    for victim in victims
  ]


def _median(raw: Sequence[report.Row], name: str, **where: str) -> float | None:
  """Returns the median of a column's values; None: it has none."""
  known = [row for row in raw if row[name] is not None]
  is_known = any(where.items() <= row.items() for row in known)
  return report.median(known, name, **where) if is_known else None


def _goals(raw: Sequence[report.Row]) -> list[str]:
  """Returns the lines of the goals that the rows concern."""
  goals = [
    ("worker/1", "back_s", "until a killed worker writes again", WORKER_GOAL_S),
    (
      _START,
      "start_up_s",
      "from the command to the first update",
      START_UP_GOAL_S,
    ),
    *(
      (stop, "stop_s", f"from {stop} to the end, with a snapshot", STOP_GOAL_S)
      for stop in _STOPS
    ),
  ]
  lines = []
  for event, column, what, goal_s in goals:
    if any(row["event"] == event for row in raw):
      seconds = report.median(raw, column, event=event)
      text = f"{seconds:.1f} s {what}, goal under {goal_s:g} s"
      lines.append(goal.at_most(text, seconds, goal_s))
  return lines
