"""SnapshotStore: a run's snapshots, on this machine and at a remote place."""

import contextlib
import fcntl
import os
import pathlib
import shutil
import time
import typing
from collections.abc import Iterator

import ml_collections
from absl import logging

from slipway.launch.runs import (
  config_file,
  manifest,
  place,
  run_folder,
  uploads,
)


class Snapshot(typing.NamedTuple):
  """One whole snapshot on this machine."""

  path: pathlib.Path
  number: int  # counts from 1, in the order of writing
  step: int  # that the run had reached


def open_store(
  config: ml_collections.ConfigDict, folder: run_folder.RunFolder
) -> "SnapshotStore":
  """The store of a run, as `config.snapshot` describes it.

  Args:
    config: the whole config.
    folder: of the run; need not exist yet.

  Raises:
    ValueError: one line: the remote URL cannot be used.
  """
  return SnapshotStore(
    folder, config.snapshot.keep, config.snapshot.url, config
  )


class SnapshotStore:
  """Numbered snapshots of a run, written by one process at a time.

  A snapshot is written into a hidden folder, gets a manifest of all its files,
  is synced and renamed: whatever kills its writer, the snapshot is whole or not
  there. With a remote place, each one is also uploaded in the background.

  ```python
  store = snapshot_store.open_store(config, folder)
  newest = store.newest()
  with store.writing(step=1_000, is_best=False) as path:
    counters.write(path)
  store.flush(timeout_s=4.0)
  ```
  """

  def __init__(
    self,
    folder: run_folder.RunFolder,
    keep: int = 1,
    url: str = "",
    config: ml_collections.ConfigDict | None = None,
  ):
    """Reads and writes nothing yet.

    Args:
      folder: of the run.
      keep: how many of the newest stay in each place, beside the best one.
      url: where other machines find the runs' snapshots: a URL of fsspec or an
        absolute path; empty: nowhere.
      config: the whole config, of which each snapshot has a copy, as it can
        be resumed with no other; None: of a reader.

    Raises:
      ValueError: one line: `keep` is below 1, or the URL cannot be used.
    """
    if keep < 1:
      raise ValueError(
        f"keep is {keep}, so each snapshot would be deleted as soon as it is "
        "written: keep 1 or more"
      )
    self._folder, self._config = folder.snapshots, folder.config
    self._keep, self._url, self._run = keep, url, folder.name
    self._saved_config = None if config is None else config_file.to_json(config)
    self._local = place.Place(str(folder.path.absolute()))
    self._remote = None
    if url:
      with self._usable("used"):
        self._remote = place.Place(f"{url.rstrip('/')}/{folder.name}")
    self._uploads = uploads.Uploads(self._local, self._remote, keep)
    self._last: Snapshot | None = None
    self._last_at_s: float | None = None
    self._unwritten = False  # the last one, which failed

  @property
  def last(self) -> Snapshot | None:
    """The snapshot that this object found or wrote last; None: none yet."""
    return self._last

  def newest(self) -> Snapshot | None:
    """Returns the newest whole snapshot; None: there is none.

    If only the remote place has it, it is fetched. Damaged snapshots are
    skipped with a line in the log.

    Raises:
      OSError: one line: the remote place cannot be read, and this machine has
        no snapshot, so the run would start from scratch.
    """
    try:
      found = self._find(self._remote)
    except Exception as error:  # Of whatever package reads the place.
      found = self._find(None)
      said = (
        f"config.snapshot.url={self._url!r} cannot be read "
        f"({place.one_line(error)})"
      )
      if found is None:
        raise OSError(
          f"{said}, and {str(self._folder)!r} has no snapshot, so the run's "
          "progress is not known: try again once the URL can be read"
        ) from error
      logging.warning("%s; the local snapshot %d is used", said, found.number)
    self._last = found
    self._last_at_s = found.path.stat().st_mtime if found else None
    return found

  @contextlib.contextmanager
  def writing(self, step: int, is_best: bool = False) -> Iterator[pathlib.Path]:
    """Yields a folder to fill, which becomes the newest snapshot.

    If the body raises, nothing is left of it. Older snapshots are removed only
    once the new one is whole, and never while they wait for their upload.

    Args:
      step: kept with the snapshot; a resumed run may pass the same step again.
      is_best: keeps this snapshot until another one is the best.

    Raises:
      RuntimeError: another writer is at work in the folder.
      OSError: the disk rejects the snapshot; the older ones are kept.
    """
    began_s = time.time()
    with self._locked():
      number = max(self._local.numbers(), default=0) + 1
      try:
        with self._adding(number) as hidden:
          yield hidden
          if self._saved_config is not None:
            path = hidden / run_folder.CONFIG
            path.write_text(self._saved_config, encoding="utf-8")
          manifest.write(hidden, step)
      except BaseException:
        self._unwritten = True
        raise
      self._last = Snapshot(self._path(number), number, step)
      self._last_at_s = began_s
      self._unwritten = False
      if is_best:
        self._local.mark_best(number)
        _sync(self._folder)
      self._local.prune(self._keep, self._uploads.in_use())
    self._uploads.add(number, is_best)

  def upload_last(self) -> None:
    """Begins to upload `last`, unless the remote place has it.

    For a process that continues a run: the one before may have been killed
    before its upload was done.
    """
    if self._last is not None:
      number = self._last.number
      self._uploads.add(number, is_best=number == self._local.best())

  def flush(self, timeout_s: float) -> None:
    """Waits until all is uploaded; logs a warning if that takes too long."""
    if not self._uploads.wait(timeout_s):
      logging.warning(
        "the last snapshot was not uploaded within %.0f s; other machines "
        "resume from the one before, if there is one",
        max(0.0, timeout_s),
      )

  def metrics(self) -> dict[str, typing.Any]:
    """Number and time of the last snapshot, and the state of the uploads."""
    return {
      "written": self._last.number if self._last else 0,
      "written_at_s": self._last_at_s,
      "unwritten": self._unwritten,
      **self._uploads.metrics(),
    }

  def check_remote(self, may_exist: bool) -> None:
    """Checks that the remote place, if there is one, can take this run.

    Args:
      may_exist: whether the place may have a run of this name.

    Raises:
      ValueError: one line: the place cannot be written, or has such a run.
    """
    if self._remote is None:
      return
    with self._usable("written"):
      self._remote.check_writable()
      exists = self._remote.holds_run()
    if exists and not may_exist:
      raise ValueError(
        f"config.snapshot.url={self._url!r} has a run {self._run!r} already, "
        "whose snapshots the new one would take for its own: choose another "
        "run name, or allow overwriting, which deletes them"
      )

  def publish_config(self, clear: bool) -> None:
    """Copies config.json to the remote place, for a resume elsewhere.

    Args:
      clear: whether to delete what the place has of an older run first.

    Raises:
      OSError: the place cannot be written.
    """
    if self._remote is None:
      return
    if clear:
      self._remote.clear()
    self._remote.put_config(self._config)

  def _path(self, number: int) -> pathlib.Path:
    return self._folder / f"{number:06d}"

  def _find(self, remote: place.Place | None) -> Snapshot | None:
    there = remote.numbers() if remote else []
    for number in sorted({*self._local.numbers(), *there}, reverse=True):
      with _skipping_damaged(number):
        if remote and number in there and not self._local.has_whole(number):
          self._fetch(remote, number)
        step = manifest.check(self._path(number)).step
        return Snapshot(self._path(number), number, step)
    return None

  def _fetch(self, remote: place.Place, number: int) -> None:
    with self._locked(wait=True):
      # Another process may have fetched it meanwhile.
      if not self._local.has_whole(number):
        with self._adding(number) as hidden:
          remote.get(number, str(hidden.absolute()))
          manifest.check(hidden)

  @contextlib.contextmanager
  def _adding(self, number: int) -> Iterator[pathlib.Path]:
    """Yields a hidden folder, and makes it a snapshot in one step."""
    for path in self._folder.glob(".*"):  # left by writers that were killed
      if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    hidden = self._folder / f".{number:06d}"
    hidden.mkdir()
    try:
      yield hidden
      for path in (*hidden.rglob("*"), hidden):
        _sync(path)
      self._local.remove(number)  # a damaged one
      os.rename(hidden, self._path(number))
    except BaseException:
      shutil.rmtree(hidden, ignore_errors=True)
      raise
    _sync(self._folder)

  @contextlib.contextmanager
  def _locked(self, wait: bool = False) -> Iterator[None]:
    self._folder.mkdir(parents=True, exist_ok=True)
    # The kernel drops the lock with the process, however it ends.
    descriptor = os.open(self._folder, os.O_RDONLY)
    try:
      try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
      except BlockingIOError as error:
        raise RuntimeError(
          f"{self._folder} is being written by another writer, so no snapshot "
          "can be added now: wait for the one that is under way"
        ) from error
      yield
    finally:
      os.close(descriptor)

  @contextlib.contextmanager
  def _usable(self, how: str) -> Iterator[None]:
    """Turns an error of fsspec's packages into one line for the user."""
    try:
      yield
    except Exception as error:
      raise ValueError(
        f"config.snapshot.url={self._url!r} cannot be {how} "
        f"({place.one_line(error)}), so no snapshot would be kept there: make "
        "it usable (install its package, grant access), or give another URL"
      ) from error


@contextlib.contextmanager
def _skipping_damaged(number: int) -> Iterator[None]:
  try:
    yield
  except (ValueError, FileNotFoundError) as error:
    logging.warning(
      "snapshot %d is damaged and not used: %s", number, place.one_line(error)
    )


def _sync(path: pathlib.Path) -> None:
  """Waits until a file or folder is on the disk."""
  descriptor = os.open(path, os.O_RDONLY)
  try:
    os.fsync(descriptor)
  finally:
    os.close(descriptor)
