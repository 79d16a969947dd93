"""Scalars: reads a run's metrics from TensorBoard's event files as they grow.

TensorBoard's own reader imports TensorFlow, which takes seconds.
"""

import pathlib
import struct
import threading
import typing
from collections.abc import Iterator

from tensorboard.compat.proto import event_pb2

_MAX_ROWS = 2_000  # in memory, from which on every other one is dropped
# A record's length, and a checksum before its content.
_HEADER = struct.Struct("<QI")
_CHECKSUM_BYTES = 4  # after the content
_MAX_RECORD_BYTES = 1 << 28
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
      for event in self._read_events(path):
        if event.HasField("session_log"):  # a resume, from an earlier step
          self._keep([row for row in self._rows if row[0] < event.step])
        values = event.summary.value
        row = {x.tag: x.simple_value for x in values}
        if _TIME in row:
          self._rows.append((event.step, row))
        if len(self._rows) >= _MAX_ROWS:
          self._keep(self._rows[1::2])

  def _read_events(self, path: pathlib.Path) -> Iterator[typing.Any]:
    """Yields the new whole events of a file."""
    with path.open("rb") as file:
      file.seek(self._offsets.setdefault(path, 0))
      while len(header := file.read(_HEADER.size)) == _HEADER.size:
        size = _HEADER.unpack(header)[0]
        if size > _MAX_RECORD_BYTES:
          return  # the file is damaged
        content = file.read(size + _CHECKSUM_BYTES)
        if len(content) < size + _CHECKSUM_BYTES:
          return  # it is being written
        self._offsets[path] = file.tell()
        yield event_pb2.Event.FromString(content[:size])

  def _keep(self, rows: list[tuple[int, dict[str, float]]]) -> None:
    """Keeps some of the rows."""
    if len(rows) < len(self._rows):
      self._rows, self._generation = rows, self._generation + 1
