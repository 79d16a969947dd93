"""Trace: the timeline of a profile, for https://ui.perfetto.dev.

The format is Chrome's:
https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU
"""

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
    events.append(_make_name("process_name", pid, 0, name))
    found = steps.find_steps(profile)
    offset_s = profile.started_at_s - began_s
    times_s = [*profile.times_s, profile.duration_s]
    for tid, (thread, samples) in enumerate(profile.threads.items(), 1):
      paths = [_make_path(profile, found, stack) for stack in samples.stacks]
      if all(path in ((), (steps.WAITING,)) for path in paths):
        continue
      events.append(_make_name("thread_name", pid, tid, thread))
      for depth, label, first, end in _find_slices(paths):
        events.append(
          {
            "name": label,
            "cat": "function" if depth else "step",
            "ph": "X",
            "ts": round(1e6 * (offset_s + times_s[first])),
            "dur": round(1e6 * (times_s[end] - times_s[first])),
            "pid": pid,
            "tid": tid,
          }
        )
  return json.dumps({"traceEvents": events, "displayTimeUnit": "ms"})


def _make_name(kind: str, pid: int, tid: int, name: str) -> dict[str, Any]:
  """Returns the event that names a process or a thread."""
  return {
    "ph": "M",
    "name": kind,
    "pid": pid,
    "tid": tid,
    "args": {"name": name},
  }


def _make_path(
  profile: sampling.Profile, found: list[str], stack: int
) -> tuple[str, ...]:
  """Returns a sample's step, and its functions unless it waits."""
  if stack == sampling.NO_STACK:
    return ()
  if found[stack] == steps.WAITING:
    return (steps.WAITING,)
  return found[stack], *(profile.frames[x] for x in profile.stacks[stack])


def _find_slices(
  paths: list[tuple[str, ...]],
) -> Iterator[tuple[int, str, int, int]]:
  """Yields depth, label, first sample and end of each slice.

  A slice comes before those below it.
  """
  begun: list[tuple[str, int]] = []  # label and first sample, by depth
  done = []
  for sample, path in enumerate([*paths, ()]):
    kept = 0
    while kept < min(len(begun), len(path)) and begun[kept][0] == path[kept]:
      kept += 1
    ended = range(kept, len(begun))
    done += [(depth, *begun[depth], sample) for depth in ended]
    begun[kept:] = [(label, sample) for label in path[kept:]]
  yield from sorted(done, key=lambda x: (x[2], x[0]))
