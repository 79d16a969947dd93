"""SnapshotStore: writes and finds a run's snapshots."""

import contextlib
import fcntl
import os
import pathlib
import shutil
import time
import typing
from collections.abc import Callable, Iterator, Mapping

import fsspec
import ml_collections
from absl import logging

from slipway.launch.runs import (
  config_file,
  error_text,
  manifest,
  run_folder,
  run_status,
  uploads,
)


class Snapshot(typing.NamedTuple):
  """A complete snapshot on the local disk.

  Attributes:
    path: the snapshot's folder.
    number: number of the snapshot; the run's first snapshot is 1.
    best: number of the run's best snapshot so far, or None without one.
  """

  path: pathlib.Path
  number: int
  best: int | None


def open_store(
  config: ml_collections.ConfigDict, folder: run_folder.RunFolder
) -> "SnapshotStore":
  """Returns the store of a run's snapshots, by section `snapshot` of a config.

  Args:
    folder: the run's folder, which need not exist yet.

  Raises:
    ValueError: the URL cannot be used.
  """
  files = {run_folder.CONFIG: config_file.to_json(config)}
  return SnapshotStore(folder, config.snapshot.keep, config.snapshot.url, files)


class SnapshotStore:
  """Writes a run's snapshots, and finds the newest one for a resume.

  A snapshot is written to a hidden folder with a manifest of all its files,
  synced to the disk, and renamed. So a killed writer never leaves an incomplete
  snapshot. With a URL, snapshots are also uploaded in the background.

  ```python
  store = snapshot_store.open_store(config, folder)
  newest = store.newest()
  with store.writing(is_best=False) as path:
    counters.write(path)
  store.flush(lambda: end_s - time.monotonic())
  ```

  Attributes:
    last: the snapshot that `newest` found or `writing` wrote last, or None.
  """

  def __init__(
    self,
    folder: run_folder.RunFolder,
    keep: int = 1,
    url: str = "",
    files: Mapping[str, str] | None = None,
  ):
    """Makes a store, without access to its files.

    Args:
      keep: number of the newest snapshots to keep, in addition to the best one.
      url: remote folder of all runs, to which snapshots are uploaded: a URL of
        fsspec or an absolute path, or '' for no uploads.
      files: texts of the files that each snapshot has, by name.

    Raises:
      ValueError: the URL cannot be used.
    """
    self._folder, self._keep = folder.snapshots.absolute(), keep
    self._files = fsspec.filesystem("file")
    self._texts = dict(files or {})
    self._uploads = uploads.Uploads(folder, url, keep) if url else None
    self.last: Snapshot | None = None
    self._last_at_s: float | None = None
    self._unwritten = False  # whether the last attempt to write failed

  def newest(self, local_suffices: bool = True) -> Snapshot | None:
    """Returns the newest complete snapshot, or None if there is none.

    A snapshot that is only at the URL is downloaded. Damaged snapshots are
    skipped, with a line in the log.

    Args:
      local_suffices: whether the newest local snapshot is returned if the URL
        can't be read. Snapshots there may be newer if the run has continued on
        another machine.

    Raises:
      OSError: the URL cannot be read, and the local disk has no snapshot or
        does not suffice; or the local disk is too full for the newest snapshot.
    """
    try:
      found = self._find_newest(self._uploads)
    except uploads.UnreadableError as error:
      found = self._find_newest(None)
      if found is None:
        raise OSError(
          f"{error}, and {str(self._folder)!r} has no snapshot, so the run's "
          "progress is not known: try again once the URL can be read"
        ) from error
      if not local_suffices:
        raise OSError(
          f"{error}, where the run may have newer snapshots than the local "
          f"one, {found.number}: try again once the URL can be read, or "
          "continue from the local one with --config.snapshot.url="
        ) from error
      logging.warning("%s; the local snapshot %d is used", error, found.number)
    self.last = found
    self._last_at_s = found.path.stat().st_mtime if found else None
    return found

  def has_snapshots(self) -> bool:
    """Returns whether a resume may find a snapshot, here or at the URL.

    Raises:
      OSError: the URL, which may have snapshots, can't be read.
    """
    if any(map(self._is_complete, self._list_numbers())):
      return True
    return bool(self._uploads and self._uploads.list_numbers())

  @contextlib.contextmanager
  def writing(self, *, is_best: bool = False) -> Iterator[pathlib.Path]:
    """Yields an empty folder, which is the newest snapshot after the block.

    The block writes the snapshot's files to the folder. If the block raises an
    error, the folder is removed. Old snapshots are removed once the new one is
    complete, except those that wait for an upload. If that fails, the error is
    only logged, since the new one is complete. In a run that is resumed,
    `newest` must be called before, since it finds the best one.

    Args:
      is_best: whether this is the best snapshot, which is kept until another
        one is the best.

    Raises:
      RuntimeError: another process is writing a snapshot.
      OSError: the disk rejects the snapshot; the older ones are kept.
    """
    began_s = time.time()
    with self._locked():
      number = max(self._list_numbers(), default=0) + 1
      try:
        best = number if is_best else self.last and self.last.best
        with self._new_snapshot(number) as hidden:
          yield hidden
          for name, text in self._texts.items():
            (hidden / name).write_text(text, encoding="utf-8")
          manifest.write(hidden, best)
      except BaseException:
        self._unwritten = True
        raise
      self.last = Snapshot(self._path(number), number, best)
      self._last_at_s, self._unwritten = began_s, False
      self.upload_last()
      in_use = self._uploads.in_use() if self._uploads else ()
      try:
        manifest.prune(
          self._files, str(self._folder), self._keep, (best, *in_use)
        )
      except OSError as error:
        text = error_text.one_line(error)
        logging.error("old snapshots can't be removed: %s", text)

  def upload_last(self) -> None:
    """Begins to upload the last snapshot and the best one, if it is here.

    To be called after a restart, as the earlier process may have been killed
    before. A snapshot that is uploaded already is not copied.
    """
    if self._uploads and self.last:
      numbers, best = {self.last.number}, self.last.best
      if best is not None and self._is_complete(best):
        numbers.add(best)
      self._uploads.add(numbers)

  def flush(self, get_rest_s: Callable[[], float]) -> None:
    """Waits until all uploads are done; see `Uploads.flush`."""
    if self._uploads:
      self._uploads.flush(get_rest_s)

  def explain_loss(self, why: str) -> str:
    """Returns one line about the run's last snapshot, which is not written.

    Args:
      why: the reason, as a clause.
    """
    follows = (
      f"a resumed run continues from snapshot {self.last.number}, before the "
      "run's end"
      if self.last
      else "it was the first one, and the run can't be resumed"
    )
    return f"the last snapshot is not written ({why}): {follows}"

  def status(self) -> run_status.SnapshotsStatus:
    """Returns the state of the snapshots and uploads, as far as it knows."""
    uploads = self._uploads
    return run_status.SnapshotsStatus(
      written=self.last.number if self.last else 0,
      written_at_s=self._last_at_s,
      uploaded=uploads.last if uploads else None,
      upload_failures=uploads.failures if uploads else 0,
      unwritten=self._unwritten,
    )

  def check_remote(self, may_exist: bool) -> None:
    """Checks that snapshots can be uploaded; see `Uploads.check`."""
    if self._uploads:
      self._uploads.check(may_exist)

  def publish_config(self, clear: bool) -> None:
    """Uploads the run's config and spaces; see `Uploads.publish_config`."""
    if self._uploads:
      self._uploads.publish_config(clear)

  def _path(self, number: int) -> pathlib.Path:
    """Returns the path of a snapshot's local folder."""
    return self._folder / f"{number:06d}"

  def _list_numbers(self) -> list[int]:
    """Returns the numbers of the local snapshots, the newest first."""
    return manifest.list_numbers(self._files, str(self._folder))

  def _is_complete(self, number: int) -> bool:
    """Returns whether a local snapshot is complete, without its checksums."""
    return manifest.is_complete(self._files, str(self._path(number)))

  def _find_newest(self, remote: uploads.Uploads | None) -> Snapshot | None:
    """Returns the newest complete snapshot, local or fetched, if any."""
    remote_numbers = remote.list_numbers() if remote else []
    numbers = {*self._list_numbers(), *remote_numbers}
    for number in sorted(numbers, reverse=True):
      try:
        if remote and number in remote_numbers:
          self._fetch(remote, number)
        best = manifest.check(self._path(number)).best
        return Snapshot(self._path(number), number, best)
      except (ValueError, FileNotFoundError) as error:
        text = error_text.one_line(error)
        logging.warning("snapshot %d is damaged and not used: %s", number, text)
    return None

  def _fetch(self, remote: uploads.Uploads, number: int) -> None:
    """Downloads a snapshot and checks it, unless it is complete here."""
    if self._is_complete(number):
      return
    with self._locked(wait=True):
      # Another process may have downloaded it meanwhile.
      if not self._is_complete(number):
        with self._new_snapshot(number) as hidden:
          remote.fetch(number, hidden)
          manifest.check(hidden)

  @contextlib.contextmanager
  def _new_snapshot(self, number: int) -> Iterator[pathlib.Path]:
    """Yields a hidden folder, which becomes snapshot `number` after it."""
    # The folder is synced to the disk and renamed. If the block raises an
    # error, the folder is removed.
    # Remove the hidden folders of writers that were killed.
    for path in self._folder.glob(".*"):
      if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    hidden = self._folder / f".{number:06d}"
    hidden.mkdir()
    try:
      yield hidden
      for path in (*hidden.rglob("*"), hidden):
        _sync(path)
      # Remove a damaged snapshot of this number, if any.
      shutil.rmtree(self._path(number), ignore_errors=True)
      os.rename(hidden, self._path(number))
    except BaseException:
      shutil.rmtree(hidden, ignore_errors=True)
      raise
    _sync(self._folder)

  @contextlib.contextmanager
  def _locked(self, wait: bool = False) -> Iterator[None]:
    """Locks the snapshots' folder against other writers in a block."""
    self._folder.mkdir(parents=True, exist_ok=True)
    # The kernel releases the lock when the process ends.
    descriptor = os.open(self._folder, os.O_RDONLY)
    try:
      try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
      except BlockingIOError as error:
        raise RuntimeError(
          f"{self._folder} is being written by another writer, so no snapshot "
          "can be added now: wait until it is done"
        ) from error
      yield
    finally:
      os.close(descriptor)


def _sync(path: pathlib.Path) -> None:
  """Writes a file's or folder's cached data to the disk (fsync)."""
  descriptor = os.open(path, os.O_RDONLY)
  try:
    os.fsync(descriptor)
  finally:
    os.close(descriptor)
