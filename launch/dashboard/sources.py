"""Sources: finds the runs that a dashboard shows, and reads their states."""

import hashlib
import pathlib
import typing
from collections.abc import Sequence

from slipway.launch.dashboard import scalars
from slipway.launch.runs import run_folder


class Source(typing.NamedTuple):
  """A run, and what was read of it.

  Attributes:
    key: identifies the run in addresses of the page.
    folder: the run's folder.
    scalars: the run's metrics.
  """

  key: str
  folder: run_folder.RunFolder
  scalars: scalars.Scalars


class Sources:
  """The runs in folders, of which new ones appear while sweeps last."""

  def __init__(self, paths: Sequence[str]):
    """Checks the folders: each is a run, or has some, as that of a sweep.

    Raises:
      ValueError: a folder is neither, or can't be read.
    """
    self.paths = [run_folder.expand(path).resolve() for path in paths]
    self._known: dict[str, Source] = {}
    for path in self.paths:
      if not _list_runs(path):
        run_folder.RunFolder.open(path, trust=True)  # raises, with advice

  def list(self) -> list[Source]:
    """Returns all runs, in the order of their folders and names."""
    found = {}
    for path in (run for own in self.paths for run in _list_runs(own)):
      key = hashlib.blake2s(bytes(path), digest_size=6).hexdigest()
      if key not in self._known:
        folder = run_folder.RunFolder(path)
        self._known[key] = Source(key, folder, scalars.Scalars(folder.events))
      found[key] = self._known[key]
    return [*found.values()]

  def get(self, key: str) -> Source | None:
    """Returns a run by its key, or None if no run of `list` has had it."""
    return self._known.get(key) or {x.key: x for x in self.list()}.get(key)


def find_newest(run_dir: pathlib.Path) -> str:
  """Returns the path of the newest run or sweep in a folder.

  Raises:
    ValueError: there is none.
  """
  found = [path for path in run_dir.glob("*") if _list_runs(path)]
  if not found:
    raise ValueError(
      f"{str(run_dir)!r} has no run, so there is nothing to show: give the "
      "folder of a run or a sweep, or start one by `slipway train`"
    )
  return str(max(found, key=lambda path: path.stat().st_mtime))


def _list_runs(path: pathlib.Path) -> list[pathlib.Path]:
  """Returns the folder itself if it is a run, else the runs in it."""
  if run_folder.RunFolder(path).is_run():
    return [path]
  runs = [config.parent for config in path.glob(f"*/{run_folder.CONFIG}")]
  return sorted(runs, key=lambda x: (len(x.name), x.name))  # 2-1 before 10-1
