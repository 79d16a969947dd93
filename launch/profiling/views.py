"""Views of processes' profiles, by name: table, flame graph and timeline."""

import collections
import itertools
import json
from collections.abc import Mapping

from slipway.launch.control import sampling
from slipway.launch.profiling import steps

_COLUMNS = 5  # processes beside one another, for 80 columns of a terminal


def make_table(profiles: Mapping[str, sampling.Profile]) -> str:
  """Returns shares of time: a column per process, and a row per step in use.

  Steps add up to 100 %: a moment in which several threads work is divided
  evenly among them, and 'waiting' are those in which no thread works. The last
  row is the processor time, with 100 % for each busy core.
  """
  lines: list[str] = []
  for first in range(0, len(profiles), _COLUMNS):
    names = [*profiles][first : first + _COLUMNS]
    shares = [_find_shares(profiles[name]) for name in names]
    rows = [["", *names]]
    for step in steps.ORDER:
      if any(share[step] for share in shares):
        texts = (f"{x[step]:.1%}" if x[step] else "" for x in shares)
        rows.append([step, *texts])
    rows.append(["CPU", *(f"{profiles[x].cpu_cores:.1%}" for x in names)])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for step, *texts in rows:
      cells = step.ljust(widths[0]), *map(str.rjust, texts, widths[1:])
      lines.append("  ".join(cells).rstrip())
  return "\n".join(lines)


def make_flame_graph(profiles: Mapping[str, sampling.Profile]) -> str:
  """Returns how often each stack was sampled that does not wait, one per line.

  A line has process, thread, step and functions with `;` between them, as in
  https://github.com/brendangregg/FlameGraph#2-fold-stacks.
  """
  counts = collections.Counter[str]()
  for process, profile in profiles.items():
    paths = _make_paths(profile)
    for _, sample in profile.samples:
      for thread, stack in sample.items():
        if paths[stack]:
          names = process, profile.threads[thread], *paths[stack]
          counts[";".join(names)] += 1
  return "".join(f"{names} {count}\n" for names, count in counts.items())


def make_timeline(profiles: Mapping[str, sampling.Profile]) -> str:
  """Returns a slice per step of a thread, and its functions below, as JSON.

  A slice lasts as long as consecutive samples have it; waiting has none. The
  format is Chrome's:
  https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU
  """
  events: list[dict[str, object]] = []
  for pid, (process, profile) in enumerate(profiles.items()):
    events.append(_make_name("process", process, pid=pid))
    paths, end_s = _make_paths(profile), profile.samples[-1][0]
    for tid, thread in enumerate(profile.threads):
      own: dict[str, object] = {"pid": pid, "tid": tid}
      events.append(_make_name("thread", thread, **own))
      before: tuple[str, ...] = ()
      for time_s, sample in [*profile.samples, (end_s, {})]:
        path = paths[sample[tid]] if tid in sample else ()
        pairs = zip(before, path, strict=False)
        kept = len([*itertools.takewhile(lambda x: x[0] == x[1], pairs)])
        changes = [{"ph": "E"}] * (len(before) - kept)
        changes += [{"ph": "B", "name": name} for name in path[kept:]]
        own["ts"] = round(1e6 * time_s)
        events += [{**own, **change} for change in changes]
        before = path
  return json.dumps({"traceEvents": events})


def _make_name(kind: str, name: str, **own: object) -> dict[str, object]:
  """Returns the event that names a process or a thread."""
  return {"ph": "M", "name": f"{kind}_name", "args": {"name": name}, **own}


def _make_paths(profile: sampling.Profile) -> list[tuple[str, ...]]:
  """Returns the step and the functions of each stack, or () if it waits."""
  found = [(steps.find_step(stack), *stack) for stack in profile.stacks]
  return [() if path[0] == steps.WAITING else path for path in found]


def _find_shares(profile: sampling.Profile) -> dict[str, float]:
  """Returns the part of the time that the process spends in each step."""
  shares = dict.fromkeys(steps.ORDER, 0.0)
  paths = _make_paths(profile)
  for _, sample in profile.samples:
    working = [paths[x][0] for x in sample.values() if paths[x]]
    for step in working or [steps.WAITING]:
      shares[step] += 1 / (len(working) or 1) / len(profile.samples)
  return shares
