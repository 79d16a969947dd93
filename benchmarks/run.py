"""Run: measures the benchmarks and writes their results. `make bench`."""

import argparse
import sys
from collections.abc import Sequence

from benchmarks import (
  blocked,
  command_line,
  frames,
  machine,
  outages,
  pong,
  proxy,
  recovery,
  rounds,
  snapshot,
  solving,
  trainer,
  variables,
  worker,
)
from benchmarks.scale import measuring as scale
from benchmarks.scaling import measuring as scaling

NAMES = (
  "worker",
  "trainer",
  "frames",
  "proxy",
  "variables",
  "rounds",
  "recovery",
  "snapshot",
  "outages",
  "blocked",
  "scaling",
  "scale",
  "pong",
  "cartpole",
  "pong_solved",
)


# Folders of results inside --out, for benchmarks that have their own.
_FOLDERS = {"scale": scale.FOLDER}


def main(arguments: Sequence[str] | None = None) -> int:
  """Measures the given benchmarks, and prints and writes their results.

  Args:
    arguments: arguments of the command line; None: those of this process.

  Returns:
    Exit status 0, whether or not goals were reached.
  """
  args = _parse(arguments)
  measure = {
    "worker": lambda: worker.measure(args.runs),
    "trainer": lambda: trainer.measure(args.runs),
    "frames": lambda: frames.measure(args.runs),
    "proxy": lambda: proxy.measure(args.runs),
    "variables": lambda: variables.measure(args.runs),
    "rounds": lambda: rounds.measure(args.runs),
    "recovery": lambda: recovery.measure(args.runs),
    "snapshot": lambda: snapshot.measure(args.runs),
    "outages": lambda: outages.measure(args.runs),
    "blocked": blocked.measure,
    "scaling": lambda: scaling.measure(args.runs, args.out),
    "scale": lambda: scale.measure(args.runs),
    "pong": lambda: pong.measure(args.runs),
    "cartpole": lambda: solving.measure(solving.CARTPOLE, args.seeds, args.out),
    "pong_solved": lambda: solving.measure(solving.PONG, 3, args.out),
  }
  for name in args.only:
    head = machine.describe()  # before: the load is not the benchmark's own
    print(f"measuring {name} ...", file=sys.stderr, flush=True)
    report = measure[name]()
    report.write(args.out / _FOLDERS.get(name, ""), head)
    print(report.markdown(head), flush=True)
  return 0


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
  parser = argparse.ArgumentParser(prog="benchmarks.run", description=__doc__)
  parser.add_argument(
    "--only",
    type=lambda text: command_line.names(text, NAMES, "benchmark"),
    default=NAMES,
    help="benchmarks to measure, separated by commas; default: all, "
    f"{','.join(NAMES)}",
  )
  command_line.add_count(
    parser,
    "--runs",
    5,
    "repetitions per measurement, whose medians are reported",
  )
  command_line.add_count(
    parser, "--seeds", 10, "runs of the benchmark cartpole, of up to 4 minutes"
  )
  command_line.add_out(parser)
  return parser.parse_args(arguments)


if __name__ == "__main__":
  sys.exit(main())
