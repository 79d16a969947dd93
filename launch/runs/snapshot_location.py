"""SnapshotLocation: copies of a run's snapshots on a disk or object store."""

import contextlib
import itertools
import os
import pathlib
import re
import uuid
from collections.abc import Collection

import fsspec
from fsspec.implementations import local

from slipway.launch.runs import manifest, run_folder

# Characters that fsspec expands as patterns where it removes and moves files,
# except on a local disk.
_PATTERN_CHARACTERS = "*?["
_BEST = "best"  # name of the file with the number of the best snapshot
_NUMBERED = re.compile(r"\d{6,}")  # names of the snapshots' folders


class SnapshotLocation:
  """The config and snapshots of one run, local or at a URL of fsspec.

  `<root>/config.json` is the run's config, and `<root>/snapshots/000007/` has
  the files of snapshot 7. The manifest of a snapshot is written last. A
  snapshot is complete if it has a manifest, and all files have the sizes in the
  manifest. Incomplete snapshots are never used.
  """

  def __init__(self, root: str):
    """Makes a location, without access to its files.

    Args:
      root: URL or absolute path of the run's folder.

    Raises:
      ImportError: the package for the protocol of the URL is missing.
      ValueError: fsspec does not support the protocol, or the URL has a
        character of a pattern.
    """
    self._files, path = fsspec.url_to_fs(root)
    self._root = str(path).rstrip("/")
    is_local = isinstance(self._files, local.LocalFileSystem)
    found = [x for x in _PATTERN_CHARACTERS if x in self._root]
    if found and not is_local:
      raise ValueError(
        f"it has {' and '.join(map(repr, found))}, which fsspec takes for a "
        "pattern of several paths"
      )
    self._folder = f"{self._root}/snapshots"

  def numbers(self) -> list[int]:
    """Returns the numbers of all snapshots, the newest (highest) first.

    Incomplete snapshots are included.
    """
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
    """Returns the path of a snapshot's folder in the file system."""
    return f"{self._folder}/{number:06d}"

  def is_complete(self, number: int) -> bool:
    """Returns whether a snapshot exists and all of its files have their sizes.

    Checksums are not compared.

    Raises:
      OSError: the location cannot be read.
    """
    try:
      manifest.check_sizes(self._files, self.path(number))
    except ValueError:
      return False
    return True

  def put(self, number: int, source: str) -> None:
    """Copies a local snapshot to this location, unless the location has it.

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
    """Copies a snapshot from this location to a folder, which is not checked.

    Args:
      number: number of the snapshot.
      target: empty local folder for the copy.

    Raises:
      ValueError: the snapshot at this location is incomplete.
      OSError: the location cannot be read, or the disk rejects the copy.
    """
    source = self.path(number)
    files = manifest.check_sizes(self._files, source).files
    for name in (*files, manifest.FILE):
      os.makedirs(os.path.dirname(f"{target}/{name}"), exist_ok=True)
      self._files.get_file(f"{source}/{name}", f"{target}/{name}")

  def remove(self, number: int) -> None:
    """Removes the files of a snapshot, if it exists."""
    with contextlib.suppress(FileNotFoundError):
      self._files.rm(self.path(number), recursive=True)

  def prune(self, keep: int, in_use: Collection[int] = ()) -> None:
    """Removes old snapshots, except the best one.

    Incomplete snapshots do not count towards `keep`. They are kept if they are
    newer than all complete ones, because they may still be written.

    Args:
      keep: number of the newest complete snapshots to keep.
      in_use: numbers of further snapshots to keep.

    Raises:
      OSError: the location cannot be written.
    """
    numbers = self.numbers()
    complete = list(itertools.islice(filter(self.is_complete, numbers), keep))
    kept = {*complete, self.best(), *in_use}
    for number in numbers:
      if complete and number < complete[0] and number not in kept:
        self.remove(number)

  def best(self) -> int | None:
    """Returns the number of the snapshot that `mark_best` marked, or None."""
    try:
      return int(self._files.cat_file(f"{self._folder}/{_BEST}"))
    except (FileNotFoundError, ValueError):
      return None

  def mark_best(self, number: int) -> None:
    """Marks a snapshot as the best one, so that `prune` keeps it."""
    temporary = f"{self._folder}/.{_BEST}"
    self._files.pipe_file(temporary, str(number).encode())
    self._files.mv(temporary, f"{self._folder}/{_BEST}")

  def overlaps(self, folder: pathlib.Path) -> bool:
    """Returns whether this location is, contains or lies in a local folder."""
    if not isinstance(self._files, local.LocalFileSystem):
      return False
    root, folder = pathlib.Path(self._root).resolve(), folder.resolve()
    return root.is_relative_to(folder) or folder.is_relative_to(root)

  def check_writable(self) -> None:
    """Checks that the location is writable, with a small temporary file.

    Raises:
      OSError: the location cannot be used. The fsspec package for the URL may
        raise errors of other types.
    """
    probe, content = f"{self._root}/.probe-{uuid.uuid4().hex}", b"probe"
    self._files.makedirs(self._root, exist_ok=True)
    self._files.pipe_file(probe, content)
    read = self._files.cat_file(probe)
    self._files.rm_file(probe)
    if read != content:
      raise OSError("it returns other bytes than were written")

  def holds_run(self) -> bool:
    """Returns whether the location has a run's config or snapshots."""
    config = f"{self._root}/{run_folder.CONFIG}"
    return bool(self.numbers()) or self._files.exists(config)

  def put_config(self, folder: pathlib.Path) -> None:
    """Copies a run's config, and its spaces if it has them, to this location.

    Args:
      folder: the run's local folder.
    """
    for name in (run_folder.CONFIG, run_folder.SPACES):
      if (folder / name).exists():
        self._put_file(str(folder / name), f"{self._root}/{name}")

  def clear(self) -> None:
    """Removes the config and the snapshots of the run at this location.

    Other files are kept: the URL may be that of a folder with files of the
    user's own.
    """
    for number in self.numbers():
      self.remove(number)
    config = f"{self._root}/{run_folder.CONFIG}"
    spaces = f"{self._root}/{run_folder.SPACES}"
    for path in (config, spaces, f"{self._folder}/{_BEST}"):
      with contextlib.suppress(FileNotFoundError):
        self._files.rm_file(path)

  def _put_file(self, source: str, target: str) -> None:
    """Copies a local file to this location, and makes the target's folder.

    Args:
      source: local path of the file.
      target: path of the copy in this location's file system.
    """
    self._files.makedirs(os.path.dirname(target), exist_ok=True)
    self._files.put_file(source, target)
