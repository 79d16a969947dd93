"""Scale: plans larger clusters. `python -m benchmarks.scale [--config=...]`.

Measures the capacity of one process of each kind on this machine, and computes
how many workers and machines it supports, and which component saturates first.
"""

import argparse
import sys
from collections.abc import Sequence

from benchmarks import command_line, machine
from benchmarks.scale import measuring, rig


def main(arguments: Sequence[str] | None = None) -> int:
  """Measures the components, and prints and writes the plans.

  Args:
    arguments: arguments of the command line; None: those of this process.

  Returns:
    Exit status: 0, or 2 for a config that can't be planned with.
  """
  args = _parse(arguments)
  head = machine.describe()  # before: the load is not the benchmark's own
  try:
    measuring.load(args.config)
  except ValueError as error:
    print(f"scale: {error}", file=sys.stderr)
    return 2
  found = measuring.measure(
    1 if args.quick else args.runs,
    args.config,
    args.cores_per_machine,
    rig.QUICK if args.quick else None,
  )
  found.write(args.out / measuring.FOLDER, head)
  print(found.markdown(head))
  return 0


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
  parser = argparse.ArgumentParser(prog="benchmarks.scale", description=__doc__)
  parser.add_argument(
    "--config",
    default=measuring.CONFIG,
    help="config for which to plan, ALGORITHM:PRESET; default: "
    f"{measuring.CONFIG}",
  )
  parser.add_argument(
    "--quick", action="store_true", help="measure for one minute only"
  )
  command_line.add_count(
    parser, "--runs", 5, "repetitions, whose medians determine the plans"
  )
  command_line.add_count(
    parser,
    "--cores_per_machine",
    measuring.CORES_PER_MACHINE,
    "cores of each machine with workers",
  )
  command_line.add_out(parser)
  return parser.parse_args(arguments)


if __name__ == "__main__":
  sys.exit(main())
