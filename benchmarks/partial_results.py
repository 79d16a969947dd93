"""Partial results: the rows of a long benchmark while it is measured."""

import json
import pathlib
import sys
import threading
from collections.abc import Callable

from benchmarks import machine, report


class PartialResults:
  """Rows of a benchmark that continues after an interruption.

  A context manager: rows are in a file until it ends without an error. A
  benchmark that was interrupted, and is started again on the same commit,
  measures only the rows that are missing. With uncommitted changes, or without
  git, all are measured, as the code may differ.
  """

  def __init__(self, folder: pathlib.Path, name: str):
    """Reads the rows that an interrupted benchmark of this commit has left.

    Args:
      folder: folder of the file, which has one JSON object per row.
      name: name of the benchmark, as of its `report.Report`.
    """
    path = self._path = folder / f"{name}.partial.jsonl"
    self._commit = machine.commit()
    is_clean = machine.is_clean(self._commit)
    self._rows: dict[str, report.Row] = {}
    self._lock = threading.Lock()  # several rows may be measured at once
    lines = path.read_text().splitlines() if path.exists() else []
    for line in lines:
      try:
        entry = json.loads(line)
      except json.JSONDecodeError:
        continue  # the interruption cut it off
      if entry["commit"] == self._commit and is_clean:
        self._rows[entry["name"]] = entry["row"]
    if self._rows:
      print(
        f"continuing after {len(self._rows)} measurements in {path}",
        file=sys.stderr,
        flush=True,
      )

  def __enter__(self) -> "PartialResults":
    """Returns the object itself."""
    return self

  def __exit__(self, exception: object, *unused: object) -> None:
    """Removes the file, unless there was an exception."""
    if exception is None:
      self._path.unlink(missing_ok=True)

  def measure(
    self,
    name: str,
    measure: Callable[[], report.Row],
    is_kept: Callable[[report.Row], bool] = lambda row: True,
  ) -> report.Row:
    """Returns the row with a name, and measures it if it is not there yet.

    Args:
      name: name of the row, printed when it is measured.
      measure: function that measures the row, of numbers, text and None.
      is_kept: function that returns whether a row need not be measured again.
    """
    if name in self._rows:
      return self._rows[name]
    print(f"{name} ...", file=sys.stderr, flush=True)
    row = measure()
    if not is_kept(row):
      return row
    self._rows[name] = row
    self._path.parent.mkdir(parents=True, exist_ok=True)
    entry = {"commit": self._commit, "name": name, "row": row}
    with self._lock, open(self._path, "a", encoding="utf-8") as file:
      # On a line of its own, even if the line before was cut off.
      file.write(f"\n{json.dumps(entry)}\n")
    return row
