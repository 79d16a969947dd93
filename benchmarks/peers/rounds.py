"""Rounds: each entry in turn, as often as there are seeds."""

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
  """Measures all entries at a task, one after the other in each round.

  Args:
    task: of `entries.TASKS`.
    chosen: entries, ours among them.
    seeds: rounds; the first has seed 1.

  Returns:
    A row for each entry, measurement and seed; with a note, and no numbers,
    where there is nothing to measure.
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
  """One row of the raw file; what is not given is None, a note is empty.

  Args:
    task: of `entries.TASKS`.
    entry: name of an entry.
    measured: 'speed' or 'learning'.
    seed: of the round.
    **values: by column.
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
  """A program's command, and where it imports from."""
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
