"""CsvFile: a hook that writes all metrics of each evaluation to metrics.csv."""

import csv
import io
import math
import pathlib
from collections.abc import Mapping, Sequence

from slipway.launch.hooks import event as event_lib
from slipway.launch.runs import outbox

FILE = "metrics.csv"  # name of the file in the run's folder
_COUNT_COLUMN = (
  "evaluation/count"  # name of the column that numbers evaluations
)


class CsvFile:
  """A hook that writes one row per evaluation, with one column per metric.

  Unlike curves.csv, the file has all metrics that TensorBoard shows.
  """

  def __init__(self):
    """Makes the hook; the file is opened at the first event."""
    self._outbox = outbox.Outbox()
    # Columns of the file, or None if this object has not written it yet.
    self._columns: list[str] | None = None

  def __call__(self, event: event_lib.Event) -> None:
    """Updates the file after an event of the run.

    At an evaluation, a row is appended. At the start of a resumed run, the rows
    after its snapshot are removed. Other events retry rows that a full disk
    has rejected.
    """
    path = event.folder / FILE
    if event.name == "start":
      count = event.status.evaluation.count
      rows = [
        row
        for row in self._read_rows(path)
        if float(row[_COUNT_COLUMN]) <= count
      ]
      self._write_rows(path, rows)
    elif event.name == "evaluation":
      self._append_row(path, event.metrics)
    else:
      self._outbox.flush()

  def _append_row(
    self, path: pathlib.Path, metrics: Mapping[str, float]
  ) -> None:
    """Appends a row of metrics; rewrites the file if a metric is new."""
    columns = self._columns
    if columns is None or metrics.keys() - set(columns):
      # The file gets new columns, such as the learner's first metrics.
      self._write_rows(path, [*self._read_rows(path), metrics])
    else:
      self._outbox.append(path, _format_rows(columns, [metrics]))

  def _write_rows(
    self, path: pathlib.Path, rows: Sequence[Mapping[str, object]]
  ) -> None:
    """Replaces the file by a header and `rows`, dicts from column to value."""
    columns = list(dict.fromkeys(name for row in rows for name in row))
    header = [dict(zip(columns, columns, strict=True))] if columns else []
    self._columns = columns
    self._outbox.replace(path, _format_rows(columns, [*header, *rows]))

  def _read_rows(self, path: pathlib.Path) -> list[dict[str, str]]:
    """Returns the file's rows, values by column; [] if the file is missing.

    Rows that a full disk has rejected are included. Damaged rows are left out:
    those without the number of an evaluation, and those with more values than
    there are columns. A kill or a full disk may have cut the last row, and
    another row may have been appended to it.
    """
    text = io.StringIO(self._outbox.read(path).decode(), newline="")
    return [row for row in csv.DictReader(text) if _is_whole(row)]


def _format_rows(
  columns: Sequence[str], rows: Sequence[Mapping[str, object]]
) -> bytes:
  """Returns rows as CSV without a header; a missing value is an empty cell."""
  text = io.StringIO()
  writer = csv.DictWriter(text, columns, restval="", lineterminator="\n")
  writer.writerows(rows)
  return text.getvalue().encode()


def _is_whole(row: Mapping[str | None, str | None]) -> bool:
  """Returns whether a row of `csv.DictReader` has the number of an evaluation.

  The reader has the key None for values without a column, and the value None
  for columns without a value.
  """
  try:
    return None not in row and math.isfinite(float(row[_COUNT_COLUMN] or ""))
  except (KeyError, ValueError):
    return False
