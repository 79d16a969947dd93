"""Compares Slipway with other libraries: `python -m benchmarks.peers`."""

import argparse
import sys
from collections.abc import Sequence

from benchmarks import command_line, machine
from benchmarks.peers import comparison, entries


def main(arguments: Sequence[str] | None = None) -> int:
  """Measures the libraries, and prints and writes one page per task.

  Args:
    arguments: arguments of the command line; None: those of this process.

  Returns:
    Exit status 0, whatever the results are.
  """
  args = _parse(arguments)
  for task in args.tasks:
    # Before the measurement, so that the load is not the benchmark's own.
    head = machine.describe()
    report = comparison.measure(
      task, args.only, args.seeds, args.in_a_row, head, args.out
    )
    print(report.markdown(head), flush=True)
  return 0


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
  parser = argparse.ArgumentParser(prog="benchmarks.peers", description=__doc__)
  parser.add_argument(
    "--only",
    type=lambda text: command_line.names(text, entries.FOLDERS, "peer"),
    default=entries.FOLDERS,
    help="peers to compare with Slipway, separated by commas; default: all, "
    f"{','.join(entries.FOLDERS)}",
  )
  parser.add_argument(
    "--tasks",
    type=lambda text: command_line.names(text, entries.TASKS, "task"),
    default=entries.TASKS,
    help="tasks to measure, separated by commas; default: all, "
    f"{','.join(entries.TASKS)}",
  )
  command_line.add_count(
    parser, "--seeds", 3, "number of rounds, whose medians are reported"
  )
  command_line.add_count(
    parser,
    "--in_a_row",
    1,
    "evaluations in a row, or means of 20 training episodes, that must "
    "reach a task's target; with more than 1, only learning is measured, for "
    "the page peers_TASK_in_a_row",
  )
  command_line.add_out(parser)
  return parser.parse_args(arguments)


if __name__ == "__main__":
  sys.exit(main())
