"""Snapshots: numbered folders of a run, of which only whole ones are used."""

import contextlib
import fcntl
import json
import os
import pathlib
import re
import shutil
import typing
import zlib
from collections.abc import Iterator

from absl import logging

_MANIFEST = "manifest.json"
_BEST = "best"  # a link to the folder that is kept for it
_NUMBERED = re.compile(r"\d{6,}")
# Of larger files only the size is checked: a restart must not read gigabytes
# twice, and what large files there are (TFRecords) carry checksums themselves.
_CHECKSUM_BYTES = 1 << 26
_READ_BYTES = 1 << 20


class Snapshot(typing.NamedTuple):
  """One whole snapshot."""

  path: pathlib.Path
  number: int  # counts from 1, in the order of writing
  step: int  # that its writer gave


def newest_of(folder: pathlib.Path) -> Snapshot | None:
  """The snapshot that a node begins with; None: there is none.

  Args:
    folder: of a `Snapshots`.
  """
  return Snapshots(folder, keep=1).newest()


class Snapshots:
  """A folder of snapshots, written by one process at a time.

  A snapshot is written into a hidden folder, brought to the disk, given a
  manifest of all its files, and renamed: whatever ends its writer, there is
  either all of it or nothing.

  ```python
  snapshots = Snapshots(folder, keep=2)
  with snapshots.writing(step=1_000) as path:
    (path / 'counters.json').write_text(...)
  snapshots.mark_best()
  snapshot = snapshots.newest()
  ```
  """

  def __init__(self, folder: str | os.PathLike[str], keep: int):
    """Makes the folder, if it is missing.

    Args:
      folder: of this class alone.
      keep: how many of the newest stay, beside the best one.

    Raises:
      ValueError: `keep` is below 1.
    """
    if keep < 1:
      raise ValueError(
        f"keep is {keep}, so each snapshot would be deleted as soon as it is "
        "written: keep 1 or more"
      )
    self._folder = pathlib.Path(folder)
    self._folder.mkdir(parents=True, exist_ok=True)
    self._keep = keep

  @contextlib.contextmanager
  def writing(self, step: int) -> Iterator[pathlib.Path]:
    """Yields a folder to fill, which becomes the newest snapshot.

    If its body raises, nothing is left of it. Older snapshots go only once it
    stands.

    Args:
      step: kept with the snapshot; of the run, not of this class: a resumed
        run may come past the same step again.

    Raises:
      RuntimeError: another writer is at work in the folder.
      OSError: the disk refuses; the older snapshots are kept.
    """
    with self._locked():
      self._remove_leftovers()
      number = max(self._numbers(), default=0) + 1
      hidden = self._folder / f".{number:06d}"
      hidden.mkdir()
      try:
        yield hidden
        _write_manifest(hidden, step)
        os.rename(hidden, self._path(number))
      except BaseException:
        shutil.rmtree(hidden, ignore_errors=True)
        raise
      _sync(self._folder)
      self._prune()

  def newest(self) -> Snapshot | None:
    """The newest whole snapshot; None: there is none.

    What is damaged is passed over, which the log says in a line each.
    """
    for number in sorted(self._numbers(), reverse=True):
      if (snapshot := self._whole(number)) is not None:
        return snapshot
    return None

  def best(self) -> Snapshot | None:
    """The snapshot last marked as the best; None: none is, or it is damaged."""
    number = self._best_number()
    return None if number is None else self._whole(number)

  def mark_best(self) -> None:
    """Keeps the newest snapshot, until another one is marked.

    Raises:
      ValueError: there is no snapshot.
    """
    newest = self.newest()
    if newest is None:
      raise ValueError(
        f"{self._folder} holds no whole snapshot, so none can be kept as the "
        "best: write one first"
      )
    beside = self._folder / f".{_BEST}"
    beside.unlink(missing_ok=True)
    beside.symlink_to(newest.path.name)
    os.replace(beside, self._folder / _BEST)
    _sync(self._folder)

  def _path(self, number: int) -> pathlib.Path:
    return self._folder / f"{number:06d}"

  def _numbers(self) -> list[int]:
    names = (path.name for path in self._folder.iterdir())
    return [int(name) for name in names if _NUMBERED.fullmatch(name)]

  def _best_number(self) -> int | None:
    try:
      return int(os.readlink(self._folder / _BEST))
    except OSError:
      return None

  def _whole(self, number: int) -> Snapshot | None:
    path = self._path(number)
    try:
      return Snapshot(path, number, _check(path))
    except (OSError, ValueError) as error:
      logging.warning("snapshot %s is damaged and not used: %s", path, error)
      return None

  @contextlib.contextmanager
  def _locked(self) -> Iterator[None]:
    # The kernel drops the lock with the process, however it ends.
    descriptor = os.open(self._folder, os.O_RDONLY)
    try:
      try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
      except BlockingIOError as error:
        raise RuntimeError(
          f"{self._folder} is being written by somebody else, so no snapshot "
          "can be added now: wait for the one that is under way"
        ) from error
      yield
    finally:
      os.close(descriptor)

  def _remove_leftovers(self) -> None:
    """Removes what writers that were killed have left behind."""
    for path in self._folder.glob(".*"):
      if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)

  def _prune(self) -> None:
    """Removes what is older than the newest ones; the best one stays."""
    numbers = sorted(self._numbers(), reverse=True)
    # A damaged one among them does not take the place of a whole one.
    whole = [n for n in numbers if _has_sizes(self._path(n))][: self._keep]
    for number in numbers:
      if number < whole[-1] and number != self._best_number():
        # Renamed first: a folder that is half deleted would be a damaged one.
        hidden = self._folder / f".{number:06d}"
        os.rename(self._path(number), hidden)
        shutil.rmtree(hidden)


def _write_manifest(folder: pathlib.Path, step: int) -> None:
  """Syncs all that is in a folder, and then a list of it."""
  files = {}
  for path in sorted(folder.rglob("*")):
    if path.is_file():
      size = path.stat().st_size
      checksum = _checksum(path) if size <= _CHECKSUM_BYTES else None
      files[str(path.relative_to(folder))] = {"bytes": size, "crc32": checksum}
    _sync(path)
  content = {"step": step, "files": files}
  text = json.dumps(content, sort_keys=True)
  manifest = folder / _MANIFEST
  # The manifest's own checksum stands in its second line.
  manifest.write_text(f"{text}\n{zlib.crc32(text.encode())}")
  _sync(manifest)
  _sync(folder)


def _read_manifest(folder: pathlib.Path) -> dict[str, typing.Any]:
  try:
    text, checksum = (folder / _MANIFEST).read_text().splitlines()
  except FileNotFoundError:
    raise ValueError(f"it has no {_MANIFEST}") from None
  except ValueError:
    raise ValueError(f"{_MANIFEST} is no longer what was written") from None
  if checksum != str(zlib.crc32(text.encode())):
    raise ValueError(f"{_MANIFEST} is no longer what was written")
  return json.loads(text)


def _check(folder: pathlib.Path) -> int:
  """Compares a folder with its manifest; returns the step.

  Raises:
    ValueError: what is wrong, in a few words.
  """
  manifest = _read_manifest(folder)
  for name, expected in manifest["files"].items():
    path = folder / name
    if not path.is_file():
      raise ValueError(f"{name} is missing")
    size = path.stat().st_size
    if size != expected["bytes"]:
      raise ValueError(f"{name} has {size} bytes of {expected['bytes']}")
    if expected["crc32"] is not None and _checksum(path) != expected["crc32"]:
      raise ValueError(f"{name} is no longer what was written")
  return manifest["step"]


def _has_sizes(folder: pathlib.Path) -> bool:
  """Whether all files are there with their sizes, which is quickly said."""
  try:
    files = _read_manifest(folder)["files"]
    return all(
      (folder / name).stat().st_size == expected["bytes"]
      for name, expected in files.items()
    )
  except (OSError, ValueError):
    return False


def _checksum(path: pathlib.Path) -> int:
  checksum = 0
  with path.open("rb") as file:
    while block := file.read(_READ_BYTES):
      checksum = zlib.crc32(block, checksum)
  return checksum


def _sync(path: pathlib.Path) -> None:
  """Brings a file or folder to the disk, before anything says it is there."""
  descriptor = os.open(path, os.O_RDONLY)
  try:
    os.fsync(descriptor)
  finally:
    os.close(descriptor)
