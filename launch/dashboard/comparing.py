"""Comparing: the returns of several runs, as `slipway plot` compares them.

Results are kept until a file changes, since a page requests them every few
seconds, and a sweep may have hundreds of runs.
"""

import collections
import functools
import pathlib
import typing
from collections.abc import Sequence

import numpy as np

from slipway.configs import fields
from slipway.launch.dashboard import sources as sources_lib
from slipway.launch.runs import comparison, config_file, curves, statistics

_POINTS = 60  # points per line of several runs
_MAX_FIELDS = 4  # in which the configs of groups are shown to differ
_cached = functools.lru_cache(2_000)

# A file's path, and what changes with its content: its time and size.
_File = tuple[pathlib.Path, int, int]


def compare(
  sources: Sequence[sources_lib.Source], axis: str
) -> list[dict[str, typing.Any]]:
  """Returns the runs in groups, whose configs differ only in the seed.

  Args:
    sources: the runs; those without an evaluation are left out.
    axis: the horizontal axis: env_steps, trainer_steps or wall_s.

  Returns:
    Per group: 'name'; 'fields', in which its config differs from the others';
    'runs', their keys; 'final' return with its 95 % interval; and 'lines', each
    a `comparison.Line`: one, or one per run if they have no common range.
  """
  groups = collections.defaultdict(list)
  for source in sources:
    try:
      values = _read_values(_find_file(source.folder.config))
      curve = _find_file(source.folder.curves_csv)
      if len(_read_rows(curve)["wall_s"]):
        groups[values].append((source, curve))
    except (OSError, ValueError):  # it has not begun, or its page has the error
      continue
  counts = collections.Counter(x for values in groups for x in values)
  found = []
  for values, runs in groups.items():
    own = [f"{k}={v}" for k, v in values if counts[k, v] < len(groups)]
    final, lines = _measure(tuple(curve for _, curve in runs), axis)
    found.append(
      {
        "name": runs[0][0].folder.name,
        "fields": " ".join(own[:_MAX_FIELDS])
        + " ..." * (len(own) > _MAX_FIELDS),
        "runs": [source.key for source, _ in runs],
        "final": final,
        "lines": lines,
      }
    )
  return found


def read_evaluations(path: pathlib.Path) -> dict[str, np.ndarray]:
  """Returns the columns of a curves.csv; see `curves.read_evaluations`."""
  return _read_rows(_find_file(path))


def _find_file(path: pathlib.Path) -> _File:
  """Returns a file, which may be missing."""
  if not path.exists():
    return path, 0, 0
  found = path.stat()
  return path, found.st_mtime_ns, found.st_size


@_cached
def _read_values(file: _File) -> tuple[tuple[str, str], ...]:
  """Returns a config's values by name, as texts, without the seed.

  The algorithm and the environment come first.
  """
  values = fields.flatten(config_file.read(file[0]))
  values.pop("seed", None)
  first = ("agent", "environment.name")
  names = sorted(values, key=lambda name: (name not in first, name))
  return tuple((name, fields.format_value(values[name])) for name in names)


@_cached
def _read_rows(file: _File) -> dict[str, np.ndarray]:
  """Returns the rows of a curves.csv that have a mean return."""
  return curves.read_evaluations(file[0])


@_cached
def _measure(
  files: tuple[_File, ...], column: str
) -> tuple[list[float], list[dict[str, list[float]]]]:
  """Returns the final return of a group with its interval, and its lines."""
  group = comparison.Group("", [_read_rows(file) for file in files])
  final = group.final_returns
  bounds = statistics.interval(statistics.mean, final)
  runs = comparison.list_runs(group, column)
  line = comparison.make_group_line(runs, _POINTS)
  lines = [{"at": at.tolist(), "mean": mean.tolist()} for at, mean in runs]
  if line is not None:
    lines = [{name: x.tolist() for name, x in line._asdict().items()}]
  return [float(x) for x in (final.mean(), *bounds)], lines
