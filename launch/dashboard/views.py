"""Views: what the page shows of a run, as values that JSON represents."""

import collections
import functools
import os
import pathlib
import subprocess
import sys
import typing
from collections.abc import Collection, Iterator

import ml_collections

from slipway.configs import catalog, fields
from slipway.launch.api import running
from slipway.launch.dashboard import sources
from slipway.launch.display import rows
from slipway.launch.runs import (
  comparison,
  curves,
  run_folder,
  run_status,
  statistics,
)

_LOG_BYTES = 100_000  # of the shown end of a log
_MAX_EVALUATIONS = 1_000  # sent to the page, evenly chosen
# A command of `slipway` on a run, below the priority of the run.
_COMMAND = (
  *("timeout", "300", "nice", sys.executable),
  *("-m", "slipway.launch.commands.cli"),
)
# Columns of the table of all runs, by names of `RunStatus.to_numbers`.
_NUMBERS = (
  *("run/env_steps", "run/trainer_steps", "run/wall_s"),
  *("rates/env_steps_per_s", "run/training_return"),
  *("evaluation/mean_return", "evaluation/best_mean_return"),
)


def list_runs(runs: Collection[sources.Source]) -> list[typing.Any]:
  """Returns the key, name, state, numbers and note of each run."""
  found = []
  for run in runs:
    state, status, note = running.read_state(run.folder)
    numbers = status.to_numbers() if status else {}
    if status is not None:
      label, text = rows.make_diagnosis(status)
      note = f"{label}: {text.text}"
    values = [numbers.get(name) for name in _NUMBERS]
    found.append((run.key, run.folder.name, state, values, note))
  return found


def compare(
  runs: Collection[sources.Source], axis: str
) -> list[dict[str, typing.Any]]:
  """Returns the groups of runs whose configs differ only in the seed.

  Args:
    runs: the runs; those without an evaluation are left out.
    axis: the horizontal axis: env_steps, trainer_steps or wall_s.

  Returns:
    Per group: 'name'; 'fields', in which its config differs from the others';
    'key' of its first run; the mean of the 'final' returns with its 95 %
    interval; and 'lines', those of `comparison.make_lines`.

  Raises:
    ValueError: a run's config.json or curves.csv can't be read.
  """
  read = [
    _read(x, x.config.stat().st_mtime_ns, x.curves_csv.stat().st_mtime_ns)
    for x in (run.folder for run in runs)
    if x.curves_csv.exists()
  ]
  groups = comparison.merge([x for x in read if len(x.curves[0]["wall_s"])])
  counts = collections.Counter(x for y in groups for x in y.values.items())
  keys = {run.folder: run.key for run in runs}
  found = []
  for group in groups:
    own = [
      f"{name}={fields.shorten(value)}"
      for name, value in group.values.items()
      if counts[name, value] < len(groups)
    ]
    final = group.final_returns
    lines = comparison.make_lines(group, axis, points=40)
    found.append(
      {
        "name": group.name,
        "fields": " ".join(own[:4]),
        "key": keys[group.folders[0]],
        "final": [final.mean(), *statistics.interval(statistics.mean, final)],
        "lines": [line._asdict() for line in lines],
      }
    )
  return found


@functools.lru_cache(2_000)
def _read(folder: run_folder.RunFolder, *_: int) -> comparison.Group:
  """Reads a run, unless its files have the times of an earlier call."""
  return comparison.read_run(folder)


def show(run: sources.Source) -> dict[str, typing.Any]:
  """Returns all that changes in a run while it lasts; raises as `compare`."""
  state, status, note = running.read_state(run.folder)
  folder = run.folder
  evaluations = curves.read_evaluations(folder.curves_csv)
  step = 1 + len(evaluations["wall_s"]) // _MAX_EVALUATIONS
  return {
    "name": folder.name,
    "path": str(folder.path),
    "state": state,
    "note": note,
    "status": status,
    "panel": [*_list_rows(status)] if status else [],
    "evaluations": {name: x[::-step][::-1] for name, x in evaluations.items()},
    "metrics": run.read_metrics(),
    "files": [*_list_files(folder)],
  }


def _list_rows(
  status: run_status.RunStatus,
) -> Iterator[tuple[str, str, bool]]:
  """Yields label, text and alert of each row of the terminal's panel."""
  for block in rows.make_measurements(status):
    for x in block:
      yield x.label, str(x).removeprefix(x.label), x.alert
  for text in rows.find_time_left(status):
    yield "time left", text, False
  for label, texts in rows.make_facts(status):
    yield label, ", ".join(x.text for x in texts), any(x.alert for x in texts)
  label, (text, alert) = rows.make_diagnosis(status)
  yield label, text, alert


def compare_to_preset(run: sources.Source) -> dict[str, typing.Any]:
  """Returns the values of a run's config, and those of the nearest preset.

  Its name is None, and so are its values, for an algorithm of the user's own.
  """
  config = run.folder.read_config()
  values = _format(config)
  presets = {
    f"{algorithm}:{name}": _format(module.get_config(name))
    for algorithm, module in catalog.algorithms().items()
    for name in module.PRESETS
    if module.RECIPE.list_values(name)["agent"] == config.get("agent")
  }
  nearest = min(
    presets,
    key=lambda x: sum(presets[x].get(k) != v for k, v in values.items()),
    default=None,
  )
  preset = presets[nearest] if nearest else {}
  rows = [(name, value, preset.get(name)) for name, value in values.items()]
  return {"preset": nearest, "rows": rows}


def _format(config: ml_collections.ConfigDict) -> dict[str, str]:
  values = fields.flatten(config)
  return {name: fields.format_value(value) for name, value in values.items()}


def execute(run: sources.Source, command: str) -> str:
  """Returns what a command prints about a run."""
  done = subprocess.run(
    [*_COMMAND, command, str(run.folder.path)],
    stdin=subprocess.DEVNULL,
    stdout=subprocess.PIPE,
    stderr=subprocess.STDOUT,
    env=os.environ | {"COLUMNS": "110"},
    check=False,
  )
  return done.stdout.decode(errors="replace")


def read_file(run: sources.Source, path: str) -> pathlib.Path | str | None:
  """Returns a video's path, the end of a log, or None without the file."""
  found = _list_files(run.folder).get(path)
  if found is None or found.is_relative_to(run.folder.videos):
    return found
  with found.open("rb") as file:
    file.seek(max(0, found.stat().st_size - _LOG_BYTES))
    return file.read().decode(errors="replace")


def _list_files(folder: run_folder.RunFolder) -> dict[str, pathlib.Path]:
  """Returns the logs and videos of a run, by their paths in its folder."""
  # Links are left out, which might lead to any other file.
  paths = [*folder.logs.rglob("*"), *folder.videos.glob("[!.]*.mp4")]
  return {
    str(path.relative_to(folder.path)): path
    for path in sorted(paths)
    # JSON can't have a name whose bytes are no UTF-8.
    if path.is_file() and not path.is_symlink() and str(path).isprintable()
  }
