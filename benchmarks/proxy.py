"""Benchmark `proxy`: the cost for writers of writing through the proxy."""

import dataclasses
import os
import statistics
from collections.abc import Sequence

from benchmarks import goal, processes, report, writing, writing_rig

ITEMS = ("small", "frames")
WRITERS = (4, 8)

# Goals for the ratio of items per second, through the proxy to directly.
RATIO_GOALS = {
  ("small", writing_rig.SHARED): 0.8,
  ("frames", writing_rig.SHARED): 0.65,
  ("small", writing_rig.SPARE): 0.95,
  ("frames", writing_rig.SPARE): 0.9,
}
CPU_GOALS_US = {"small": 15.0, "frames": 30.0}  # of the proxy, per item
ADDED_FLUSH_GOAL_MS = 1.0

_METHOD = """\
Writer processes write to the table of a Reverb server in another process, which
never blocks, straight to its TCP port (`direct`) or through a WorkerProxy in a
process of its own (`proxy`). `small`: CartPole transitions, packed; `frames`:
84*84 bytes of noise, which do not compress; either is one uint8 row. A writer
is a raw `reverb.Client(address).trajectory_writer(num_keep_alive_refs=1)` that
after each 16 items flushes until at most 16 are in flight, and counts what was
confirmed within {window_s:g} s, after {warm_up_s:g} s of warm-up. `shared`: all
processes on all {cores} cores. `a core to spare`: server and writers pinned to
one core, the proxy to another; `direct` the same. `each flushed`: one writer
waits for each of {flushes:,} items to be confirmed. The processes stay; the two
sides alternate; medians of {runs} repetitions, ratios and differences within a
repetition. CPU time is that of all threads of a process; the proxy's contains
its polls for new variables."""


def measure(
  runs: int,
  items: Sequence[str] = ITEMS,
  writers: Sequence[int] = WRITERS,
  effort: writing_rig.Effort | None = None,
) -> report.Report:
  """Measures writing through the proxy and directly, for all cases.

  Args:
    runs: repetitions of each case.
    items: kinds of items, from `ITEMS`.
    writers: numbers of writer processes.
    effort: duration of each measurement; None: the default.
  """
  effort = effort or writing_rig.Effort()
  cores = sorted(os.sched_getaffinity(0))
  raw = []
  with processes.crew(
    max(writers), writing.prepare, processes.ONE_THREAD
  ) as crew:
    for kind in items:
      cases = _cases(kind, writers, spare=len(cores) > 1)
      rows = writing.make_rows(kind)
      with writing_rig.open_rig(crew, cores, rows) as rig:
        for repetition in range(runs):
          raw += _measure_all(rig, cases, repetition, effort)
  return report.Report(
    name="proxy",
    title="The proxy: the cost for writers of writing through it",
    method=_METHOD.format(
      cores=len(cores), runs=runs, **dataclasses.asdict(effort)
    ),
    raw=raw,
    medians=_medians(raw),
    goals=_goals(raw),
  )


def _cases(
  items: str, writers: Sequence[int], spare: bool
) -> list[writing_rig.Case]:
  """Returns the cases of one kind of items; `spare`: also with a spare core."""
  placements = (writing_rig.SHARED, *((writing_rig.SPARE,) if spare else ()))
  return [
    *(
      writing_rig.Case(items, placement, count)
      for placement in placements
      for count in writers
    ),
    writing_rig.Case(items, writing_rig.SHARED, 1, each_flushed=True),
  ]


def _measure_all(
  rig: writing_rig.Rig,
  cases: Sequence[writing_rig.Case],
  repetition: int,
  effort: writing_rig.Effort,
) -> list[report.Row]:
  """Measures all cases on both sides; returns one row per case and side."""
  raw = []
  for case in cases:
    rig.place(case.placement)
    raw += [
      {
        "case": case.name,
        **dataclasses.asdict(case),
        "repetition": repetition,
        "side": side,
        **rig.measure(case, side, effort),
      }
      for side in writing_rig.SIDES
    ]
  return raw


def _medians(raw: Sequence[report.Row]) -> list[report.Row]:
  """Returns one row per case, with the medians and the ratio of both sides."""
  medians = []
  for name in dict.fromkeys(row["case"] for row in raw):
    rows = [row for row in raw if row["case"] == name]
    columns = {
      f"{title}, {side}": _median(rows, column, side)
      for title, column, sides in (
        ("items/s", "items_per_s", writing_rig.SIDES),
        ("writers' CPU us an item", "writers_cpu_us", writing_rig.SIDES),
        ("server's", "server_cpu_us", writing_rig.SIDES),
        ("proxy's", "proxy_cpu_us", writing_rig.SIDES[1:]),
        ("flush ms, median", "flush_median_ms", writing_rig.SIDES),
        ("flush ms, p99", "flush_p99_ms", writing_rig.SIDES),
      )
      for side in sides
    }
    medians.append({"case": name, "ratio": _ratio(rows), **columns})
  return medians


def _median(rows: Sequence[report.Row], column: str, side: str) -> float | None:
  """Returns the median of a side's column; None if the case has none."""
  if rows[0][column] is None:
    return None  # the case does not measure it
  return report.median(rows, column, side=side)


def _ratio(rows: Sequence[report.Row]) -> float:
  """Returns the ratio of items per second, through the proxy to directly."""
  return report.ratio(
    rows, "items_per_s", of={"side": "proxy"}, to={"side": "direct"}
  )


def _goals(raw: Sequence[report.Row]) -> list[str]:
  goals = []
  for name in dict.fromkeys(row["case"] for row in raw):
    rows = [row for row in raw if row["case"] == name]
    items, placement = rows[0]["items"], rows[0]["placement"]
    if rows[0]["each_flushed"]:
      added_ms = _added_ms(rows)
      goals.append(
        goal.at_most(
          f"{name}: {added_ms:.2f} ms more to the median flush, goal under "
          f"{ADDED_FLUSH_GOAL_MS:g} ms",
          added_ms,
          ADDED_FLUSH_GOAL_MS,
        )
      )
      continue
    ratio, ratio_goal = _ratio(rows), RATIO_GOALS[items, placement]
    goals.append(
      goal.at_least(
        f"{name}: {ratio:.2f} of the items/s without the proxy, goal at least "
        f"{ratio_goal}",
        ratio,
        ratio_goal,
      )
    )
    if placement == writing_rig.SHARED:
      cpu_us = report.median(rows, "proxy_cpu_us", side="proxy")
      goals.append(
        goal.at_most(
          f"{name}: {cpu_us:.1f} us of the proxy's CPU time an item, goal at "
          f"most {CPU_GOALS_US[items]:g} us",
          cpu_us,
          CPU_GOALS_US[items],
        )
      )
  if all(row["placement"] == writing_rig.SHARED for row in raw):
    goals.append("This machine has one core, so none was to spare.")
  return goals


def _added_ms(rows: Sequence[report.Row]) -> float:
  """Returns the milliseconds that the proxy adds to the median flush."""
  return statistics.median(
    report.median(rows, "flush_median_ms", repetition=r, side="proxy")
    - report.median(rows, "flush_median_ms", repetition=r, side="direct")
    for r in {row["repetition"] for row in rows}
  )
