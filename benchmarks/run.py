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
  scale,
  scaling,
  snapshot,
  solving,
  trainer,
  variables,
  worker,
)

NAMES = (
  "worker",
  "trainer",
  "frames",
  "proxy",
  "variables",
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


_FOLDERS = {"scale": scale.FOLDER}  # of results that have one


def main(arguments: Sequence[str] | None = None) -> int:
  """Measures the given benchmarks, and prints and writes their results.

  Args:
    arguments: arguments of the command line; None: this process's.

  Returns:
    Exit status: 0, whether or not goals were reached.
  """
  asked = _parse(arguments)
  measure = {
    "worker": lambda: worker.measure(asked.runs),
    "trainer": lambda: trainer.measure(asked.runs),
    "frames": lambda: frames.measure(asked.runs),
    "proxy": lambda: proxy.measure(asked.runs),
    "variables": lambda: variables.measure(asked.runs),
    "recovery": lambda: recovery.measure(asked.runs),
    "snapshot": lambda: snapshot.measure(asked.runs),
    "outages": lambda: outages.measure(asked.runs),
    "blocked": blocked.measure,
    "scaling": lambda: scaling.measure(asked.runs, asked.out),
    "scale": lambda: scale.measure(asked.runs),
    "pong": lambda: pong.measure(asked.runs),
    "cartpole": lambda: solving.measure(
      solving.CARTPOLE, asked.seeds, asked.out
    ),
    "pong_solved": lambda: solving.measure(solving.PONG, 1, asked.out),
  }
  for name in asked.only:
    head = machine.describe()  # before: the load is not the benchmark's own
    print(f"measuring {name} ...", file=sys.stderr, flush=True)
    report = measure[name]()
    report.write(asked.out / _FOLDERS.get(name, ""), head)
    print(report.markdown(head), flush=True)
  return 0


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
  parser = argparse.ArgumentParser(prog="benchmarks.run", description=__doc__)
  parser.add_argument(
    "--only",
    type=lambda text: command_line.names(text, NAMES, "benchmark"),
    default=NAMES,
    help=f"which, separated by commas, of {','.join(NAMES)}; by default all",
  )
  parser.add_argument(
    "--runs",
    type=command_line.positive,
    default=5,
    help="repetitions of a measurement, of which the medians are quoted (5)",
  )
  parser.add_argument(
    "--seeds",
    type=command_line.positive,
    default=10,
    help="runs of the benchmark cartpole, each up to 4 minutes (10)",
  )
  command_line.add_out(parser)
  return parser.parse_args(arguments)


if __name__ == "__main__":
  sys.exit(main())
