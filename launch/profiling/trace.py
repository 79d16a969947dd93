"""Trace: the timeline of a profile, for https://ui.perfetto.dev.

The format is Chrome's:
https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU
"""

import itertools
import json
from collections.abc import Iterator, Mapping
from typing import Any

from slipway.launch.control import sampling
from slipway.launch.profiling import steps


def to_json(profiles: Mapping[str, sampling.Profile]) -> str:
  """Returns a trace: per thread a slice per step, and below it its functions.

  A slice lasts as long as consecutive samples show it. Threads that only wait
  are left out.

  Args:
    profiles: profile of each process, by its name.
  """
  began_s = min((x.started_at_s for x in profiles.values()), default=0.0)
  events: list[dict[str, Any]] = []
  for pid, (name, profile) in enumerate(profiles.items(), 1):
    events.append({"ph": "M", "pid": pid, **_make_name("process_name", name)})
    found = steps.find_steps(profile)
    times_s = [*profile.times_s, profile.duration_s]
    for tid, (thread, samples) in enumerate(profile.threads.items(), 1):
      own = {"pid": pid, "tid": tid}
      paths = [_make_path(profile, found, stack) for stack in samples.stacks]
      if {*paths} <= {(), (steps.WAITING,)}:
        continue
      events.append({"ph": "M", **own, **_make_name("thread_name", thread)})
      for sample, event in _find_changes(paths):
        time_s = profile.started_at_s - began_s + times_s[sample]
        events.append({**own, **event, "ts": round(1e6 * time_s)})
  return json.dumps({"traceEvents": events, "displayTimeUnit": "ms"})


def _make_name(kind: str, name: str) -> dict[str, Any]:
  """Returns fields of the event that names a process or a thread."""
  return {"name": kind, "args": {"name": name}}


def _make_path(
  profile: sampling.Profile, found: list[str], stack: int
) -> tuple[str, ...]:
  """Returns a sample's step, and its functions unless it waits."""
  if stack == sampling.NO_STACK:
    return ()
  if found[stack] == steps.WAITING:
    return (steps.WAITING,)
  return found[stack], *(profile.frames[x] for x in profile.stacks[stack])


def _find_changes(
  paths: list[tuple[str, ...]],
) -> Iterator[tuple[int, dict[str, Any]]]:
  """Yields the sample and the event of each begin and end of a slice."""
  before: tuple[str, ...] = ()
  for sample, path in enumerate([*paths, ()]):
    pairs = zip(before, path, strict=False)
    kept = len([*itertools.takewhile(lambda x: x[0] == x[1], pairs)])
    for _ in before[kept:]:
      yield sample, {"ph": "E"}
    for depth, name in enumerate(path[kept:], kept):
      kind = "function" if depth else "step"
      yield sample, {"ph": "B", "name": name, "cat": kind}
    before = path
