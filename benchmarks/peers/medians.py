"""Medians: medians and ratios of the rows that `rounds.run` returns."""

import math
import statistics
from collections.abc import Sequence

from benchmarks import report
from benchmarks.peers import entries


def ratio(
  raw: Sequence[report.Row], name: str, column: str, ours: str | None = None
) -> float | None:
  """Returns the ratio of Slipway's rate to a peer's, as the median of rounds.

  Args:
    raw: rows of measurements, from `rounds.run`.
    name: name of the peer's entry.
    column: column of the rate, such as 'env_steps_per_s'.
    ours: name of Slipway's entry, or None for the one that the peer is compared
      with.

  Returns:
    The ratio; None if no round has measured both rates.
  """
  (peer,) = [entry for entry in entries.PEERS if entry.name == name]
  ours = ours or entries.OURS[peer.compared_with].name
  rows = [row for row in raw if row[column] is not None]
  both = {row["repetition"] for row in rows if row["entry"] == ours} & {
    row["repetition"] for row in rows if row["entry"] == name
  }
  if not both:
    return None
  return report.ratio(
    [row for row in rows if row["repetition"] in both],
    column,
    {"entry": ours},
    {"entry": name},
  )


def median_seconds(raw: Sequence[report.Row], name: str) -> float | None:
  """Returns the median of the seconds in which an entry reached the target.

  Args:
    raw: rows of measurements, from `rounds.run`.
    name: name of the entry.

  Returns:
    Seconds; inf if most runs were over the limit, None if there are no runs.
  """
  values = all_seconds(raw, name)
  return statistics.median(values) if values else None


def all_seconds(raw: Sequence[report.Row], name: str) -> list[float]:
  """Returns the seconds in which each run of an entry reached the target.

  Args:
    raw: rows of measurements, from `rounds.run`.
    name: name of the entry.

  Returns:
    Seconds per run, in the order of the rows; inf for runs over the limit.
    Runs that failed have none.
  """
  return [
    math.inf if row["seconds"] is None else row["seconds"]
    for row in raw
    if row["entry"] == name
    and row["measured"] == "learning"
    and (row["seconds"] is not None or row["note"].startswith(">"))
  ]


def entry_names(raw: Sequence[report.Row]) -> list[str]:
  """Returns the names of the measured entries, in the order of their rows."""
  return list(dict.fromkeys(row["entry"] for row in raw))


def median(raw: Sequence[report.Row], name: str, column: str) -> float | None:
  """Returns the median of an entry's column; None if it has no values."""
  rows = [row for row in raw if row[column] is not None]
  if not any(row["entry"] == name for row in rows):
    return None
  return report.median(rows, column, entry=name)
