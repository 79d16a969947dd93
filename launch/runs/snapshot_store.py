"""SnapshotStore: a run's snapshots on a shared path or in an object store."""

import contextlib
import os
import pathlib
import re
import typing
import uuid

import fsspec
import ml_collections
from absl import logging

from launch.runs import manifest, run_folder, snapshots

_BEST = "best"  # a file with the number of the snapshot kept for it
_NUMBERED = re.compile(r"\d{6,}")


def newest_of(
  config: ml_collections.ConfigDict, folder: run_folder.RunFolder
) -> snapshots.Snapshot | None:
  """The snapshot that a node begins with, wherever it is; None: there is none.

  If the store has a newer one than the run's folder, it is brought there first.

  Args:
    config: the whole config, of which `snapshot` says where the store is.
    folder: of the run.

  Raises:
    ValueError: the store's URL can't be used.
    OSError: the store can't be read, and the folder has none either: what the
      store has would be begun anew; one line.
  """
  here = snapshots.newest_of(folder.snapshots)
  store = SnapshotStore.of(config, folder.name)
  if store is None:
    return here
  try:
    return store.fetch_newer(folder.snapshots, here.number if here else 0) or (
      here
    )
  except Exception as error:  # Of whatever package reads the store.
    if here is None:
      raise OSError(
        f"config.snapshot.url={config.snapshot.url!r} cannot be read "
        f"({said(error)}), and {str(folder.snapshots)!r} has no snapshot, so "
        "where the run was is not known: try again once it can be"
      ) from error
    logging.warning(
      "the store of snapshots cannot be read (%s); %d, the newest here, counts",
      *(said(error), here.number),
    )
    return here


class SnapshotStore:
  """Snapshots of one run, where other machines find them.

  `<url>/<run>/snapshots/000007/` has the files that the run's folder has of
  snapshot 7. Its manifest is written last and removed first: what has none is
  half-written, whatever ended its writer, and never used.

  ```python
  store = SnapshotStore("s3://bucket/runs", "first")
  store.upload(snapshot)
  store.prune(keep=2)
  store.fetch_newer(folder.snapshots, above=6)
  ```
  """

  def __init__(self, url: str, run: str):
    """Reads and writes nothing yet.

    Args:
      url: of a folder, as fsspec knows it, or its absolute path.
      run: the run's name.

    Raises:
      ValueError: one line: fsspec does not know the protocol, or the package
        for it is missing.
    """
    try:
      self._files, root = fsspec.url_to_fs(url)
    except (ImportError, ValueError) as error:
      raise ValueError(
        f"config.snapshot.url={url!r} cannot be used ({said(error)}), so no "
        "snapshot would be kept there: install what it needs, or give another "
        "URL or an absolute path"
      ) from error
    self._url, self._run = url, run
    self._root = f"{str(root).rstrip('/')}/{run}"
    self._folder = f"{self._root}/snapshots"

  @classmethod
  def of(
    cls, config: ml_collections.ConfigDict, run: str
  ) -> typing.Optional["SnapshotStore"]:
    """The store that a config names; None: it names none.

    Raises:
      ValueError: as `__init__`.
    """
    url = config.snapshot.url
    return cls(url, run) if url else None

  def check_writable(self) -> None:
    """Writes, reads and removes a small file.

    Raises:
      ValueError: one line: the store can't be used.
    """
    probe = f"{self._root}/.probe-{uuid.uuid4().hex}"
    try:
      self._files.makedirs(self._root, exist_ok=True)
      self._files.pipe_file(probe, self._run.encode())
      read = self._files.cat_file(probe)
      self._files.rm_file(probe)
      if read != self._run.encode():
        raise OSError("it gives back other bytes than it was given")
    except Exception as error:  # Of whatever package reads the store.
      raise ValueError(
        f"config.snapshot.url={self._url!r} cannot be written "
        f"({said(error)}), so no snapshot would be kept there: make it "
        "writable, or give another one"
      ) from error

  def check_new(self, overwrite: bool) -> None:
    """Makes sure that a new run takes nothing of another one for its own.

    Args:
      overwrite: whether an older run of this name will be cleared.

    Raises:
      ValueError: one line: there is such a run, and it may not be replaced.
      OSError: the store can't be read.
    """
    taken = self._files.exists(f"{self._root}/{run_folder.CONFIG}")
    if (taken or self._numbers()) and not overwrite:
      raise ValueError(
        f"config.snapshot.url={self._url!r} has a run {self._run!r} already, "
        "whose snapshots the new one would take for its own: choose another "
        "run name, or allow overwriting, which deletes them"
      )

  def clear(self) -> None:
    """Removes all that there is of the run.

    Raises:
      OSError: the store can't be written.
    """
    for number in self._numbers():
      self._remove(number)
    with contextlib.suppress(FileNotFoundError):
      self._files.rm(self._root, recursive=True)

  def put_config(self, config: pathlib.Path) -> None:
    """Keeps the run's config, with which another machine can resume it.

    Args:
      config: path of the file.

    Raises:
      OSError: the store can't be written.
    """
    self._put(config, f"{self._root}/{run_folder.CONFIG}")

  def upload(self, snapshot: snapshots.Snapshot) -> None:
    """Copies a snapshot, unless the store has it.

    Args:
      snapshot: whole; its files stay while this runs.

    Raises:
      OSError: the store can't be written, or the disk not be read.
    """
    number, text = snapshot.number, (snapshot.path / manifest.FILE).read_text()
    if self._manifest(number) == text:
      return
    # Another life of the run may have been killed here, or gone on elsewhere.
    self._remove(number)
    for name in (*manifest.parse(text).files, manifest.FILE):
      self._put(snapshot.path / name, f"{self._path(number)}/{name}")

  def mark_best(self, number: int) -> None:
    """Keeps a snapshot that is here, until another one is marked."""
    self._files.pipe_file(f"{self._folder}/{_BEST}", str(number).encode())

  def prune(self, keep: int) -> None:
    """Removes what is older than the newest ones; the best one stays.

    Args:
      keep: how many of the newest stay.

    Raises:
      OSError: the store can't be written.
    """
    numbers = self._numbers()
    whole = [number for number in numbers if self._manifest(number)]
    stay = {*whole[:keep], self._best_number()}
    for number in numbers:
      # A newer one that is half-written may still become whole.
      if whole and number < whole[0] and number not in stay:
        self._remove(number)

  def fetch_newer(
    self, folder: pathlib.Path, above: int
  ) -> snapshots.Snapshot | None:
    """Brings the newest whole snapshot here; None: there is no newer one.

    What is damaged is passed over, which the log says in a line each.

    Args:
      folder: of the run's snapshots on this machine.
      above: number of the newest one in it; 0: it has none.

    Raises:
      OSError: the store can't be read, or the disk refuses.
    """
    kept = snapshots.Snapshots(folder, keep=1)
    for number in self._numbers():
      if number <= above:
        break
      if (text := self._manifest(number)) is None:
        continue
      try:
        return kept.receive(
          number, lambda path, n=number, t=text: self._get(n, t, path)
        )
      except (ValueError, FileNotFoundError) as error:
        logging.warning(
          "snapshot %s of the store is damaged and not used: %s",
          *(self._path(number), said(error)),
        )
    return None

  def _path(self, number: int) -> str:
    return f"{self._folder}/{number:06d}"

  def _numbers(self) -> list[int]:
    """Of all that is there, whole or not; the newest first."""
    self._files.invalidate_cache()
    try:
      paths = self._files.ls(self._folder, detail=False)
    except FileNotFoundError:
      return []
    names = (path.rstrip("/").rsplit("/", 1)[-1] for path in paths)
    found = (int(name) for name in names if _NUMBERED.fullmatch(name))
    return sorted(found, reverse=True)

  def _manifest(self, number: int) -> str | None:
    """Text of a snapshot's manifest; None: it is not whole."""
    try:
      text = self._files.cat_file(f"{self._path(number)}/{manifest.FILE}")
      manifest.parse(text.decode())
    except (FileNotFoundError, NotADirectoryError, ValueError):
      return None
    return text.decode()

  def _best_number(self) -> int | None:
    try:
      return int(self._files.cat_file(f"{self._folder}/{_BEST}"))
    except (FileNotFoundError, ValueError):
      return None

  def _remove(self, number: int) -> None:
    path = self._path(number)
    with contextlib.suppress(FileNotFoundError):
      self._files.rm_file(f"{path}/{manifest.FILE}")
    with contextlib.suppress(FileNotFoundError):
      self._files.rm(path, recursive=True)

  def _put(self, source: pathlib.Path, there: str) -> None:
    self._files.makedirs(os.path.dirname(there), exist_ok=True)
    self._files.put_file(str(source), there)

  def _get(self, number: int, text: str, folder: pathlib.Path) -> None:
    for name in manifest.parse(text).files:
      (folder / name).parent.mkdir(parents=True, exist_ok=True)
      self._files.get_file(f"{self._path(number)}/{name}", str(folder / name))
    (folder / manifest.FILE).write_text(text)


def said(error: Exception) -> str:
  """An error's text in one line, whichever package raised it."""
  return " ".join(str(error).split()) or type(error).__name__
