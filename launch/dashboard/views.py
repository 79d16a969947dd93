"""Views: what the page shows of a run, as values that JSON represents."""

import contextlib
import os
import pathlib
import subprocess
import sys
import typing

import msgspec

from slipway.launch.api import running
from slipway.launch.dashboard import comparing, sources
from slipway.launch.display import rows
from slipway.launch.runs import run_folder

_LOG_BYTES = 100_000  # of the shown end of a log
_MAX_EVALUATIONS = 1_000  # sent to the page, evenly chosen
_MAX_FILES = 500  # logs or videos in a list
_COMMAND_TIMEOUT_S = 300.0
# Columns of curves.csv that the page draws.
_COLUMNS = (
  *("env_steps", "trainer_steps", "wall_s", "eval_return", "eval_return_std"),
)
# Columns of the table of all runs, by names of `RunStatus.to_numbers`.
_NUMBERS = (
  *("run/env_steps", "run/trainer_steps", "run/wall_s"),
  *("rates/env_steps_per_s", "run/training_return"),
  *("evaluation/mean_return", "evaluation/best_mean_return"),
)


def summarize(source: sources.Source) -> dict[str, typing.Any]:
  """Returns a run's row in the table of all runs."""
  state, status, note = running.read_state(source.folder)
  row = {"key": source.key, "name": source.folder.name, "state": state}
  if status is None:
    return row | {"note": note, "numbers": [None] * len(_NUMBERS)}
  numbers = status.to_numbers()
  label, text = rows.make_diagnosis(status)
  return row | {
    "note": f"{label}: {text.text}",
    "alert": text.alert,
    "numbers": [numbers.get(name) for name in _NUMBERS],
  }


def show(
  source: sources.Source, generation: int, count: int
) -> dict[str, typing.Any]:
  """Returns all that changes in a run while it lasts.

  Args:
    source: the run.
    generation: see `Scalars.read_since`, as `count`.
    count: number of rows of metrics that the page has.

  Raises:
    ValueError: the run's curves.csv can't be read.
  """
  state, status, note = running.read_state(source.folder)
  folder = source.folder
  evaluations = comparing.read_evaluations(folder.curves_csv)
  step = 1 + len(evaluations["wall_s"]) // _MAX_EVALUATIONS
  panel = None
  if status is not None:
    panel = {
      "measurements": [
        (x.label, str(x).removeprefix(x.label), x.alert)
        for block in rows.make_measurements(status)
        for x in block
      ],
      "time_left": rows.find_time_left(status),
      "facts": [*rows.make_facts(status)],
      "diagnosis": rows.make_diagnosis(status),
    }
  return {
    "name": folder.name,
    "path": str(folder.path),
    "state": state,
    "note": note,
    "status": status,
    "panel": panel,
    "evaluations": {
      name: evaluations[name][::-step][::-1].tolist() for name in _COLUMNS
    },
    "scalars": source.scalars.read_since(generation, count),
    "logs": _list_files(folder, folder.logs),
    "videos": _list_files(folder, folder.videos),
  }


def execute(source: sources.Source, command: str) -> dict[str, typing.Any]:
  """Executes `slipway COMMAND RUN --json`, below the priority of the run.

  Returns:
    The command's 'result', None if it has failed; and 'error', what it printed.
  """
  program = (sys.executable, "-m", "slipway.launch.commands.cli")
  try:
    done = subprocess.run(
      ["nice", *program, command, str(source.folder.path), "--json"],
      stdin=subprocess.DEVNULL,
      capture_output=True,
      timeout=_COMMAND_TIMEOUT_S,
      check=False,
    )
  except subprocess.TimeoutExpired as error:
    return {"result": None, "error": str(error)}
  printed = done.stderr.decode(errors="replace").strip()
  try:
    return {"result": msgspec.json.decode(done.stdout), "error": printed}
  except ValueError:
    return {"result": None, "error": printed or f"{command} printed no JSON"}


def find_file(folder: run_folder.RunFolder, path: str) -> pathlib.Path | None:
  """Returns the path of a log or video of a run, or None if there is none.

  No link leads out of the folders of logs and videos.

  Args:
    folder: the run's folder.
    path: path from the run's folder.
  """
  try:
    found = (folder.path / path).resolve(strict=True)
  except (OSError, ValueError, RuntimeError):  # RuntimeError: a loop of links
    return None
  folders = (folder.logs.resolve(), folder.videos.resolve())
  is_inside = any(found.is_relative_to(x) for x in folders)
  return found if is_inside and found.is_file() else None


def read_end(path: pathlib.Path) -> bytes:
  """Returns the last lines of a log."""
  with path.open("rb") as file:
    start = max(0, file.seek(0, os.SEEK_END) - _LOG_BYTES)
    file.seek(start)
    content = file.read(_LOG_BYTES)
  return content.partition(b"\n")[2] if start else content


def _list_files(
  folder: run_folder.RunFolder, inner: pathlib.Path
) -> list[tuple[str, int, float]]:
  """Returns path, bytes and unix seconds of a folder's files, newest first."""
  found = []
  for path in inner.rglob("*"):
    name = str(path.relative_to(folder.path))
    # JSON can't have a name whose bytes are no UTF-8.
    if name.isprintable() and find_file(folder, name) is not None:
      # A run removes old videos meanwhile.
      with contextlib.suppress(FileNotFoundError):
        stat = path.stat()
        found.append((name, stat.st_size, stat.st_mtime))
  return sorted(found, key=lambda x: -x[2])[:_MAX_FILES]
