"""Compares Slipway with other libraries: `python -m benchmarks.peers`."""

import argparse
import sys
from collections.abc import Sequence

from benchmarks import command_line, machine
from benchmarks.peers import comparison, entries


def main(arguments: Sequence[str] | None = None) -> int:
  """Measures the libraries, and prints and writes a page per task.

  Args:
    arguments: arguments of the command line; None: this process's.

  Returns:
    Exit status: 0, whatever the results are.
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
    type=lambda text: command_line.names(text, entries.FOLDERS, "peer"),
    default=entries.FOLDERS,
    help="peers beside Slipway, separated by commas, of "
    f"{','.join(entries.FOLDERS)}; by default all",
  )
  parser.add_argument(
    "--tasks",
    type=lambda text: command_line.names(text, entries.TASKS, "task"),
    default=entries.TASKS,
    help=f"separated by commas, of {','.join(entries.TASKS)}; by default all",
  )
  parser.add_argument(
    "--seeds",
    type=command_line.positive,
    default=3,
    help="rounds, of which the medians are quoted (3)",
  )
  command_line.add_out(parser)
  return parser.parse_args(arguments)


if __name__ == "__main__":
  sys.exit(main())
