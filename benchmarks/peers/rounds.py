"""Rounds: measures all entries of a task one after the other, once per seed."""

import functools
import typing
from collections.abc import Sequence

from benchmarks import machine, partial_results, report
from benchmarks.peers import entries, installation, learning, speed, watched

_COLUMNS = (
  "task",
  "entry",
  "measured",
  "repetition",
  *speed.Speed._fields,
  "seconds",
  "mean_return",
  "note",
)


def run(
  task: str,
  chosen: Sequence[entries.Entry],
  seeds: int,
  partial: partial_results.PartialResults,
  in_a_row: int = 1,
) -> list[report.Row]:
  """Measures all entries on a task, one after the other in each round.

  Args:
    task: a name from `entries.TASKS`.
    chosen: entries to measure, Slipway's included.
    seeds: number of rounds, which have the seeds 1 to `seeds`.
    partial: keeps the rows while others are measured.
    in_a_row: evaluations in a row that must reach the target. Speed is measured
      only if it is 1.

  Returns:
    One row per entry, measurement and seed; rows without a result have a note.
  """
  raw, row_text = [], f", {in_a_row} in a row" if in_a_row > 1 else ""
  for seed in range(1, seeds + 1):
    for entry in chosen:
      for measured, tasks in (
        ("speed", entry.speed if in_a_row == 1 else ()),
        ("learning", entry.learning),
      ):
        if task in tasks:
          row = partial.measure(
            f"{task}: {measured} of {entry.name}, seed {seed}{row_text}",
            functools.partial(_measure, measured, task, entry, seed, in_a_row),
            _is_result,
          )
          raw.append(row)
  return raw


def _is_result(row: report.Row) -> bool:
  """Returns whether a program has run to its end, or to the limit of time."""
  return not row["note"] or row["note"].startswith(">")


def make_row(task: str, entry: str, measured: str, seed: int, **values):
  """Makes a row of measurements, which has all columns of the CSV file.

  Args:
    task: a name from `entries.TASKS`.
    entry: name of an entry.
    measured: 'speed' or 'learning'.
    seed: seed of the round.
    **values: values by column; others are None, except for an empty 'note'.
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
  measured: str, task: str, entry: entries.Entry, seed: int, in_a_row: int
) -> report.Row:
  """Measures an entry's speed or learning; failures become the row's note."""
  values: dict[str, typing.Any] = {}
  try:
    if measured == "speed":
      with watched.start_program(*_make_command(entry, task, seed)) as program:
        values = speed.measure(program, entries.WINDOWS_S[task])._asdict()
    else:
      until, cap_s = entries.TARGETS.get(task), entries.CAPS_S[task]
      with watched.start_program(
        *_make_command(entry, task, seed, until, in_a_row)
      ) as program:
        learned = learning.measure(program, cap_s, entries.STEPS.get(task))
      values = learned._asdict() if learned else {"note": f">{cap_s:.0f}"}
  except installation.NotInstalledError as error:
    values["note"] = f"not installed: {error}"
  except watched.FailedError as error:
    values["note"] = f"failed: {error}"
  return make_row(task, entry.name, measured, seed, **values)


def _make_command(
  entry: entries.Entry,
  task: str,
  seed: int,
  until: float | None = None,
  in_a_row: int = 1,
):
  """Returns a program's command and import folders; installs its packages."""
  command = installation.make_command(entry, task, seed)
  if until is not None:
    command += [f"--until={until}", f"--in_a_row={in_a_row}"]
  path = [entries.FOLDER / "common"]
  if entry.folder in ("acme", "slipway"):  # which import from `benchmarks`
    path.append(machine.ROOT)
  return command, path
