"""Scalars: reads a run's metrics from its event files as they grow."""

import pathlib
import threading
import typing

from slipway.launch.runs import events

_MAX_ROWS = 2_000  # in memory, from which on every other one is dropped
_TIME = "run/wall_s"  # which the events of evaluations lack


class Scalars:
  """The metrics of a run so far. Thread-safe."""

  def __init__(self, folder: pathlib.Path):
    """Reads nothing yet from the event files in `folder`."""
    self._folder, self._lock = folder, threading.Lock()
    self._offsets: dict[pathlib.Path, int] = {}
    self._rows: list[tuple[int, dict[str, float]]] = []
    self._generation = 1  # rises when rows are removed

  def read_since(self, generation: int, count: int) -> dict[str, typing.Any]:
    """Returns the rows that a client does not have.

    Args:
      generation: that of the client's last reply, or 0.
      count: number of rows that the client has.

    Returns:
      'generation'; 'count' of all rows; 'first', how many of its rows the
      client keeps; and 'columns', new values by metric, None where unknown.
    """
    with self._lock:
      self._read()
      first = count if generation == self._generation else 0
      rows = [row for _, row in self._rows[first:]]
      names = dict.fromkeys(name for row in rows for name in row)
      return {
        "generation": self._generation,
        "count": len(self._rows),
        "first": first,
        "columns": {name: [row.get(name) for row in rows] for name in names},
      }

  def _read(self) -> None:
    """Reads what the files have more than at the last call."""
    paths = sorted(self._folder.glob("events.out.tfevents.*"))
    if not self._offsets.keys() <= {*paths}:  # another run has replaced it
      self._offsets = {}
      self._keep([])
    for path in paths:
      known = self._offsets.setdefault(path, 0)
      for event, end in events.read_events(path, known):
        self._offsets[path] = end
        if event.HasField("session_log"):  # a resume, from an earlier step
          self._keep([row for row in self._rows if row[0] < event.step])
        values = event.summary.value
        row = {x.tag: x.simple_value for x in values}
        if _TIME in row:
          self._rows.append((event.step, row))
        if len(self._rows) >= _MAX_ROWS:
          self._keep(self._rows[1::2])

  def _keep(self, rows: list[tuple[int, dict[str, float]]]) -> None:
    """Keeps some of the rows."""
    if len(rows) < len(self._rows):
      self._rows, self._generation = rows, self._generation + 1
