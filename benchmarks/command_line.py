"""Command line: arguments that several benchmarks share."""

import argparse
import pathlib
from collections.abc import Sequence

RESULTS = pathlib.Path(__file__).parent / "results"  # committed


def names(text: str, known: Sequence[str], what: str) -> tuple[str, ...]:
  """Parses a comma-separated list of names.

  Args:
    text: text of the argument.
    known: all valid names.
    what: the kind of the names, for the error message.

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
  """Parses a whole number above 0.

  Raises:
    argparse.ArgumentTypeError: one line: the number is 0 or less.
  """
  value = int(text)
  if value < 1:
    raise argparse.ArgumentTypeError(
      f"{value} is below 1, so nothing would be measured: give 1 or more"
    )
  return value


def add_out(parser: argparse.ArgumentParser) -> None:
  """Adds the argument `out`, the folder for results."""
  parser.add_argument(
    "--out",
    type=pathlib.Path,
    default=RESULTS,
    help="folder of the results (benchmarks/results)",
  )
