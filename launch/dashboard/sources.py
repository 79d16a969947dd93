"""Sources: finds the runs that a dashboard shows, and reads them."""

import functools
import hashlib
import pathlib
import threading
from collections.abc import Sequence

from slipway.launch.runs import events, run_folder

_MAX_ROWS = 600  # of metrics, from which on every other one is dropped
_TIME = "run/wall_s"  # which the events of evaluations lack


class Source:
  """A run, and its metrics so far. Thread-safe.

  Attributes:
    folder: the run's folder.
    key: identifies the run in addresses of the page.
  """

  def __init__(self, path: pathlib.Path):
    """Reads nothing yet."""
    self.folder = run_folder.RunFolder(path)
    self.key = hashlib.blake2s(bytes(path), digest_size=6).hexdigest()
    self._lock = threading.Lock()
    self._offsets: dict[pathlib.Path, int] = {}
    self._rows: list[tuple[int, dict[str, float]]] = []

  def read_metrics(self) -> dict[str, list[float | None]]:
    """Returns up to 600 values by metric, None where one is unknown."""
    with self._lock:
      self._read_events()
      rows = [row for _, row in self._rows]
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: [row.get(name) for row in rows] for name in names}

  def _read_events(self) -> None:
    """Reads what the event files have more than at the last call."""
    paths = sorted(self.folder.events.glob("events.out.tfevents.*"))
    if not self._offsets.keys() <= {*paths}:  # another run has replaced it
      self._offsets, self._rows = {}, []
    for path in paths:
      known = self._offsets.setdefault(path, 0)
      for event, end in events.read_events(path, known):
        self._offsets[path] = end
        if event.HasField("session_log"):  # a resume, from an earlier step
          self._rows = [x for x in self._rows if x[0] < event.step]
        values = event.summary.value  # of 32 bits, which have 6 digits
        row = {x.tag: float(f"{x.simple_value:.6g}") for x in values}
        if _TIME in row:
          self._rows.append((event.step, row))
        if len(self._rows) >= _MAX_ROWS:
          self._rows = self._rows[1::2]


_open = functools.cache(Source)  # with what was read of a run before


def find(paths: Sequence[pathlib.Path]) -> dict[str, Source]:
  """Returns all runs by key, in the order of their folders and names."""
  runs = [_open(run) for path in paths for run in _list_runs(path)]
  return {run.key: run for run in runs}


def find_newest(run_dir: pathlib.Path) -> pathlib.Path:
  """Returns the newest run or sweep in a folder, or the folder without one."""
  found = [path for path in run_dir.glob("*") if _list_runs(path)]
  return max(found, key=lambda path: path.stat().st_mtime, default=run_dir)


def _list_runs(path: pathlib.Path) -> list[pathlib.Path]:
  """Returns the folder itself if it is a run, else the runs in it."""
  if run_folder.RunFolder(path).is_run():
    return [path]
  runs = [config.parent for config in path.glob(f"*/{run_folder.CONFIG}")]
  return sorted(runs, key=lambda x: (len(x.name), x.name))  # 2-1 before 10-1
