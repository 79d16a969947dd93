"""Measures Slipway beside other libraries: `python -m benchmarks.peers`."""

import argparse
import pathlib
import sys
from collections.abc import Sequence

from benchmarks import machine
from benchmarks.peers import comparison, entries

_RESULTS = pathlib.Path(__file__).resolve().parents[1] / "results"


def main(arguments: Sequence[str] | None = None) -> int:
  """Measures, prints and writes a page for each task.

  Args:
    arguments: of the command line; None: this process's.

  Returns:
    Exit status: 0 it was measured, whatever was found.
  """
  asked = _parse(arguments)
  for task in asked.tasks:
    head = machine.describe()  # before: the load is not the benchmark's own
    found = comparison.measure(task, asked.only, asked.seeds, asked.out)
    found.write(asked.out, head)
    print(found.markdown(head), flush=True)
  return 0


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
  parser = argparse.ArgumentParser(prog="benchmarks.peers", description=__doc__)
  parser.add_argument(
    "--only",
    type=lambda text: _names(text, entries.FOLDERS, "peer"),
    default=entries.FOLDERS,
    help="peers beside Slipway, separated by commas, of "
    f"{','.join(entries.FOLDERS)}; by default all",
  )
  parser.add_argument(
    "--tasks",
    type=lambda text: _names(text, entries.TASKS, "task"),
    default=entries.TASKS,
    help=f"separated by commas, of {','.join(entries.TASKS)}; by default all",
  )
  parser.add_argument(
    "--seeds",
    type=_positive,
    default=3,
    help="rounds, of which the medians are quoted (3)",
  )
  parser.add_argument(
    "--out",
    type=pathlib.Path,
    default=_RESULTS,
    help="folder of the results (benchmarks/results)",
  )
  return parser.parse_args(arguments)


def _names(text: str, known: Sequence[str], what: str) -> tuple[str, ...]:
  names = tuple(text.split(","))
  for name in names:
    if name not in known:
      raise argparse.ArgumentTypeError(
        f"{name!r} is no {what}, so nothing would be measured: choose among "
        f"{', '.join(known)}"
      )
  return names


def _positive(text: str) -> int:
  value = int(text)
  if value < 1:
    raise argparse.ArgumentTypeError(
      f"{value} is below 1, so nothing would be measured: give 1 or more"
    )
  return value


if __name__ == "__main__":
  sys.exit(main())
