"""Rounds: measures each entry in turn, once per seed."""

import sys
from collections.abc import Sequence

from benchmarks import machine, report
from benchmarks.peers import entries, installation, learning, speed, watched

_COLUMNS = (
  "task",
  "entry",
  "measured",
  "repetition",
  *speed.Speed._fields,
  "seconds",
  "note",
)


def run(
  task: str, chosen: Sequence[entries.Entry], seeds: int
) -> list[report.Row]:
  """Measures all entries on a task, one after the other in each round.

  Args:
    task: a name from `entries.TASKS`.
    chosen: entries to measure, Slipway's included.
    seeds: number of rounds; the first has seed 1.

  Returns:
    A row per entry, measurement and seed; rows without a result have a note.
  """
  raw = []
  for seed in range(1, seeds + 1):
    for entry in chosen:
      if task in entry.speed:
        raw.append(_measure("speed", task, entry, seed))
      if task in entry.learning:
        raw.append(_measure("learning", task, entry, seed))
  return raw


def row(task: str, entry: str, measured: str, seed: int, **values):
  """Makes a row of the raw file; missing values are None, and the note empty.

  Args:
    task: a name from `entries.TASKS`.
    entry: name of an entry.
    measured: 'speed' or 'learning'.
    seed: seed of the round.
    **values: values by column.
  """
  given = {
    "task": task,
    "entry": entry,
    "measured": measured,
    "repetition": seed,
    "note": "",
    **values,
  }
  return {column: given.get(column) for column in _COLUMNS}


def _measure(
  measured: str, task: str, entry: entries.Entry, seed: int
) -> report.Row:
  print(
    f"{task}: {measured} of {entry.name}, seed {seed} ...",
    file=sys.stderr,
    flush=True,
  )
  values = {}
  try:
    if measured == "speed":
      with watched.started(*_command(entry, task, seed)) as program:
        values = speed.measure(program, entries.WINDOWS_S[task])._asdict()
    else:
      until, cap_s = entries.TARGETS[task], entries.CAPS_S[task]
      with watched.started(*_command(entry, task, seed, until)) as program:
        seconds = learning.measure(program, cap_s)
      values["seconds"] = seconds
      if seconds is None:
        values["note"] = f">{cap_s:.0f}"
  except installation.NotInstalledError as error:
    values["note"] = f"not installed: {error}"
  except watched.FailedError as error:
    values["note"] = f"failed: {error}"
  return row(task, entry.name, measured, seed, **values)


def _command(
  entry: entries.Entry, task: str, seed: int, until: float | None = None
):
  """Returns a program's command, and the folders from which it imports."""
  python = installation.python_for(entry)
  command = [
    *(str(python), str(entries.FOLDER / entry.folder / "program.py")),
    *(f"--task={task}", f"--seed={seed}", f"--variant={entry.variant}"),
  ]
  if until is not None:
    command.append(f"--until={until}")
  path = [entries.FOLDER / "common"]
  if entry.python is None:
    path.append(machine.ROOT)
  return command, path
