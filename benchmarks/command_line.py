"""Command line: arguments that several benchmarks share."""

import argparse
import pathlib
from collections.abc import Sequence

RESULTS = pathlib.Path(__file__).parent / "results"  # committed


def names(text: str, known: Sequence[str], what: str) -> tuple[str, ...]:
  """Parses the value of a flag that is a comma-separated list of names.

  Args:
    text: value of the flag.
    known: all valid names.
    what: what a name stands for, such as 'benchmark', for the error message.

  Raises:
    argparse.ArgumentTypeError: a name is unknown; the message lists all names.
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
  """Parses the value of a flag that is a whole number above 0.

  Raises:
    argparse.ArgumentTypeError: the number is 0 or less.
  """
  value = int(text)
  if value < 1:
    raise argparse.ArgumentTypeError(
      f"{value} is below 1, so nothing would be measured: give 1 or more"
    )
  return value


def add_count(
  parser: argparse.ArgumentParser, flag: str, default: int, meaning: str
) -> None:
  """Adds a flag whose value is a whole number above 0 to a parser.

  Args:
    parser: the parser.
    flag: the flag, such as '--seeds'.
    default: its default value, which the help names.
    meaning: text for the help.
  """
  parser.add_argument(
    flag,
    type=positive,
    default=default,
    help=f"{meaning}; default: {default}",
  )


def add_out(parser: argparse.ArgumentParser) -> None:
  """Adds the flag --out, the folder for results, to a parser."""
  parser.add_argument(
    "--out",
    type=pathlib.Path,
    default=RESULTS,
    help="folder of the results; default: benchmarks/results",
  )
