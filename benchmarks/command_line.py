"""What the benchmarks' command lines have in common."""

import argparse
import pathlib
from collections.abc import Sequence

RESULTS = pathlib.Path(__file__).parent / "results"  # committed


def names(text: str, known: Sequence[str], what: str) -> tuple[str, ...]:
  """Reads names that are separated by commas.

  Args:
    text: of the argument.
    known: that it may name.
    what: each of them is.

  Raises:
    argparse.ArgumentTypeError: one line: a name is unknown.
  """
  found = tuple(text.split(","))
  for name in found:
    if name not in known:
      raise argparse.ArgumentTypeError(
        f"{name!r} is no {what}, so nothing would be measured: choose "
        f"among {', '.join(known)}"
      )
  return found


def positive(text: str) -> int:
  """Reads a whole number above 0.

  Raises:
    argparse.ArgumentTypeError: one line: it is below.
  """
  value = int(text)
  if value < 1:
    raise argparse.ArgumentTypeError(
      f"{value} is below 1, so nothing would be measured: give 1 or more"
    )
  return value


def add_out(parser: argparse.ArgumentParser) -> None:
  """Adds the argument `out`, the folder that results are written to."""
  parser.add_argument(
    "--out",
    type=pathlib.Path,
    default=RESULTS,
    help="folder of the results (benchmarks/results)",
  )
