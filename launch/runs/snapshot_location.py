"""SnapshotLocation: a run's snapshots on a disk or in an object store."""

import contextlib
import itertools
import os
import pathlib
import re
import uuid
from collections.abc import Collection

import fsspec

from slipway.launch.runs import manifest, run_folder

_BEST = "best"  # file with the number of the best snapshot
_NUMBERED = re.compile(r"\d{6,}")


class SnapshotLocation:
  """The folder of one run, which fsspec reads and writes.

  `<root>/config.json` is the run's config, and `<root>/snapshots/000007/` has
  the files of snapshot 7. The manifest of a snapshot is written last. A
  snapshot without one, or with other file sizes, is incomplete and never used.
  """

  def __init__(self, root: str):
    """Makes a location without accessing it.

    Args:
      root: URL or absolute path of the run's folder.

    Raises:
      ImportError: the package for the protocol of the URL is missing.
      ValueError: fsspec does not know the protocol.
    """
    self._files, path = fsspec.url_to_fs(root)
    self._root = str(path).rstrip("/")
    self._folder = f"{self._root}/snapshots"

  def numbers(self) -> list[int]:
    """Returns the numbers of all snapshots, the newest first."""
    self._files.invalidate_cache()
    try:
      paths = self._files.ls(self._folder, detail=False)
    except FileNotFoundError:
      return []
    names = (path.rstrip("/").rsplit("/", 1)[-1] for path in paths)
    return sorted(
      (int(n) for n in names if _NUMBERED.fullmatch(n)), reverse=True
    )

  def path(self, number: int) -> str:
    """Returns the path of a snapshot's folder."""
    return f"{self._folder}/{number:06d}"

  def has_whole(self, number: int) -> bool:
    """Returns whether a snapshot has all files of its manifest, by size.

    Raises:
      OSError: the location cannot be read.
    """
    try:
      manifest.check_sizes(self._files, self.path(number))
    except ValueError:
      return False
    return True

  def put(self, number: int, source: str) -> None:
    """Copies a snapshot to this location, unless it is there already.

    Args:
      number: number of the snapshot; a different snapshot with the same number
        is replaced.
      source: local folder of the snapshot.

    Raises:
      ValueError: the source is damaged.
      OSError: the location cannot be written, or the source cannot be read.
    """
    files = manifest.check_sizes(fsspec.filesystem("file"), source)
    with contextlib.suppress(ValueError):  # missing or incomplete here
      if manifest.check_sizes(self._files, self.path(number)) == files:
        return
    self.remove(number)
    for name in (*files.files, manifest.FILE):
      self._put_file(f"{source}/{name}", f"{self.path(number)}/{name}")

  def get(self, number: int, target: str) -> None:
    """Copies a snapshot from this location, without checking the copy.

    Args:
      number: number of the snapshot.
      target: empty local folder.

    Raises:
      ValueError: the snapshot is damaged.
      OSError: the location cannot be read, or the disk rejects the copy.
    """
    source = self.path(number)
    files = manifest.check_sizes(self._files, source).files
    for name in (*files, manifest.FILE):
      os.makedirs(os.path.dirname(f"{target}/{name}"), exist_ok=True)
      self._files.get_file(f"{source}/{name}", f"{target}/{name}")

  def remove(self, number: int) -> None:
    """Removes a snapshot, if it exists."""
    with contextlib.suppress(FileNotFoundError):
      self._files.rm(self.path(number), recursive=True)

  def prune(self, keep: int, in_use: Collection[int] = ()) -> None:
    """Removes old snapshots.

    The best snapshot is kept. Damaged snapshots do not count towards `keep`.
    Incomplete snapshots that are newer than all complete ones are kept, because
    they may still be written.

    Args:
      keep: number of the newest complete snapshots to keep.
      in_use: numbers of further snapshots to keep.

    Raises:
      OSError: the location cannot be written.
    """
    numbers = self.numbers()
    complete = list(itertools.islice(filter(self.has_whole, numbers), keep))
    kept = {*complete, self.best(), *in_use}
    for number in numbers:
      if complete and number < complete[0] and number not in kept:
        self.remove(number)

  def best(self) -> int | None:
    """Returns the number of the best snapshot, or None if none is marked."""
    try:
      return int(self._files.cat_file(f"{self._folder}/{_BEST}"))
    except (FileNotFoundError, ValueError):
      return None

  def mark_best(self, number: int) -> None:
    """Marks a snapshot as the best one, which `prune` keeps."""
    temporary = f"{self._folder}/.{_BEST}"
    self._files.pipe_file(temporary, str(number).encode())
    self._files.mv(temporary, f"{self._folder}/{_BEST}")

  def check_writable(self) -> None:
    """Checks that the location is writable, with a small temporary file.

    Raises:
      OSError: the location cannot be used; fsspec's packages may raise others.
    """
    probe, content = f"{self._root}/.probe-{uuid.uuid4().hex}", b"probe"
    self._files.makedirs(self._root, exist_ok=True)
    self._files.pipe_file(probe, content)
    read = self._files.cat_file(probe)
    self._files.rm_file(probe)
    if read != content:
      raise OSError("it returns other bytes than were written")

  def holds_run(self) -> bool:
    """Returns whether the location has a config or snapshots."""
    config = f"{self._root}/{run_folder.CONFIG}"
    return bool(self.numbers()) or self._files.exists(config)

  def put_config(self, config: pathlib.Path) -> None:
    """Copies the run's config to this location."""
    self._put_file(str(config), f"{self._root}/{run_folder.CONFIG}")

  def clear(self) -> None:
    """Removes all files of the run."""
    with contextlib.suppress(FileNotFoundError):
      self._files.rm(self._root, recursive=True)

  def _put_file(self, source: str, target: str) -> None:
    """Copies a local file to this location, and makes its folder."""
    self._files.makedirs(os.path.dirname(target), exist_ok=True)
    self._files.put_file(source, target)


def one_line(error: Exception) -> str:
  """Returns the text of an error in one line."""
  return " ".join(str(error).split()) or type(error).__name__
