"""SnapshotStore: writes, finds, uploads and downloads a run's snapshots."""

import contextlib
import errno
import fcntl
import os
import pathlib
import shutil
import time
import typing
from collections.abc import Callable, Iterator

import ml_collections
from absl import logging

from slipway.launch.runs import (
  config_file,
  error_text,
  manifest,
  run_folder,
  snapshot_location,
  uploads,
)

_POLL_S = 0.1  # seconds between two checks whether time is left for uploads
# Seconds to wait before each repetition of the last snapshot's failed upload.
_RETRY_WAITS_S = (1.0, 2.0, 4.0, 8.0)
# Errors of a local disk that has no space left for a snapshot.
_FULL = (errno.ENOSPC, errno.EDQUOT)


class Snapshot(typing.NamedTuple):
  """A complete snapshot on the local disk.

  Attributes:
    path: the snapshot's folder.
    number: number of the snapshot; the run's first snapshot is 1.
    step: trainer step at which the snapshot was written.
  """

  path: pathlib.Path
  number: int
  step: int


def open_store(
  config: ml_collections.ConfigDict, folder: run_folder.RunFolder
) -> "SnapshotStore":
  """Returns the store of a run's snapshots, by section `snapshot` of a config.

  Args:
    config: the whole config.
    folder: the run's folder, which need not exist yet.

  Raises:
    ValueError: the remote URL cannot be used.
  """
  return SnapshotStore(
    folder, config.snapshot.keep, config.snapshot.url, config
  )


class SnapshotStore:
  """Writes a run's snapshots, and finds the newest one for a resume.

  A snapshot is written to a hidden folder with a manifest of all its files,
  synced to the disk, and renamed. So a killed writer never leaves an incomplete
  snapshot. With a URL, snapshots are also uploaded in the background.

  ```python
  store = snapshot_store.open_store(config, folder)
  newest = store.newest()
  with store.writing(step=1_000, is_best=False) as path:
    counters.write(path)
  store.flush(lambda: end_s - time.monotonic())
  ```
  """

  def __init__(
    self,
    folder: run_folder.RunFolder,
    keep: int = 1,
    url: str = "",
    config: ml_collections.ConfigDict | None = None,
  ):
    """Makes a store, without access to its files.

    Args:
      folder: the run's folder.
      keep: number of the newest snapshots to keep, in addition to the best one.
      url: remote folder of all runs, to which snapshots are uploaded: a URL of
        fsspec or an absolute path, or '' for no uploads.
      config: the whole config, which is copied into each snapshot, or None if
        the store is only read.

    Raises:
      ValueError: `keep` is below 1, or the URL cannot be used.
    """
    if keep < 1:
      raise ValueError(
        f"keep is {keep}, so each snapshot would be deleted as soon as it is "
        "written: keep 1 or more"
      )
    self._folder, self._run_path = folder.snapshots, folder.path
    self._keep, self._url, self._run = keep, url, folder.name
    self._saved_config = None if config is None else config_file.to_json(config)
    self._local = snapshot_location.SnapshotLocation(
      str(folder.path.absolute())
    )
    self._remote = None
    if url:
      with self._as_url_error("used"):
        self._remote = snapshot_location.SnapshotLocation(
          f"{url.rstrip('/')}/{folder.name}"
        )
    self._uploads = uploads.Uploads(self._local, self._remote, keep)
    self._last: Snapshot | None = None
    self._last_at_s: float | None = None
    self._unwritten = False  # whether the last attempt to write failed

  @property
  def last(self) -> Snapshot | None:
    """The snapshot that `newest` found or `writing` wrote last, or None."""
    return self._last

  def newest(self, local_suffices: bool = True) -> Snapshot | None:
    """Returns the newest complete snapshot, or None if there is none.

    A snapshot that is only at the remote location is downloaded. Damaged
    snapshots are skipped, with a line in the log.

    Args:
      local_suffices: whether the newest local snapshot is returned if the
        remote location can't be read. Its numbers may be higher if the run has
        continued on another machine.

    Raises:
      OSError: the remote location cannot be read, and the local disk has no
        snapshot or does not suffice; or the local disk is too full for the
        newest snapshot.
    """
    try:
      found = self._find_newest(self._remote)
    except Exception as error:  # any error of the package that reads it
      if isinstance(error, OSError) and error.errno in _FULL:
        raise
      found = self._find_newest(None)
      problem = self._describe_unreadable(error)
      if found is None:
        raise OSError(
          f"{problem}, and {str(self._folder)!r} has no snapshot, so the run's "
          "progress is not known: try again once the URL can be read"
        ) from error
      if not local_suffices:
        raise OSError(
          f"{problem}, where the run may have newer snapshots than the local "
          f"one, {found.number}: try again once the URL can be read, or "
          "continue from the local one with --config.snapshot.url="
        ) from error
      logging.warning(
        "%s; the local snapshot %d is used", problem, found.number
      )
    self._last = found
    self._last_at_s = found.path.stat().st_mtime if found else None
    return found

  @contextlib.contextmanager
  def writing(self, step: int, is_best: bool = False) -> Iterator[pathlib.Path]:
    """Yields an empty folder, which is the newest snapshot after the block.

    The block writes the snapshot's files to the folder. If the block raises an
    error, the folder is removed. Old snapshots are removed once the new one is
    complete, except those that wait for an upload. If that fails, or the mark
    of the best one, the error is only logged, since the new one is complete.

    Args:
      step: current trainer step; several snapshots may have the same step.
      is_best: whether this is the best snapshot, which is kept until another
        one is the best.

    Raises:
      RuntimeError: another process is writing a snapshot.
      OSError: the disk rejects the snapshot; the older ones are kept.
    """
    began_s = time.time()
    with self._locked():
      number = max(self._local.numbers(), default=0) + 1
      try:
        with self._new_snapshot(number) as hidden:
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
      self._uploads.add(number, is_best)
      if is_best:
        with _logging_errors(f"snapshot {number} can't be marked as the best"):
          self._local.mark_best(number)
          _sync(self._folder)
      with _logging_errors("old snapshots can't be removed"):
        self._local.prune(self._keep, self._uploads.in_use())

  def upload_last(self) -> None:
    """Begins to upload the best and the last snapshot, after a restart.

    The earlier process may have been killed before the end of their uploads. A
    snapshot that is uploaded already is not copied.
    """
    best = self._local.best()
    if best is not None and self._local.is_complete(best):
      self._uploads.add(best, is_best=True)
    if self._last is not None and self._last.number != best:
      self._uploads.add(self._last.number, is_best=False)

  def flush(self, get_rest_s: Callable[[], float]) -> None:
    """Waits until all uploads are done, or logs a warning if no time is left.

    Failed uploads are repeated a few times.

    Args:
      get_rest_s: function that returns the seconds that are left. A stop signal
        may shorten them meanwhile.
    """
    for wait_s in (0.0, *_RETRY_WAITS_S):
      retry_s = time.monotonic() + wait_s
      while time.monotonic() < retry_s and get_rest_s() > 0:
        time.sleep(_POLL_S)
      self._uploads.retry()
      while not self._uploads.wait(_POLL_S) and get_rest_s() > 0:
        pass
      if not self._uploads.in_use():
        return
      if get_rest_s() <= 0:
        break
    logging.warning(
      "the last snapshot was not uploaded; other machines resume from an "
      "earlier one, if there is one"
    )

  def metrics(self) -> dict[str, typing.Any]:
    """Returns the values of a `messages.SnapshotReport`, except `pause_s`."""
    return {
      "written": self._last.number if self._last else 0,
      "written_at_s": self._last_at_s,
      "unwritten": self._unwritten,
      **self._uploads.metrics(),
    }

  def check_remote(self, may_exist: bool) -> None:
    """Checks that snapshots can be uploaded; does nothing without a URL.

    Args:
      may_exist: whether the remote location may already have a run of this
        name.

    Raises:
      ValueError: the remote location overlaps the run's folder, cannot be
        written, or has a run of this name although it may not.
    """
    if self._remote is None:
      return
    if self._remote.overlaps(self._run_path):
      raise ValueError(
        f"config.snapshot.url={self._url!r} keeps the run's copies in "
        f"{self._run!r} below it, which overlaps the run's own folder "
        f"{str(self._run_path)!r}: give a URL outside of the folder of runs"
      )
    with self._as_url_error("written"):
      self._remote.check_writable()
      exists = self._remote.holds_run()
    if exists and not may_exist:
      raise ValueError(
        f"config.snapshot.url={self._url!r} has a run {self._run!r} already, "
        "whose snapshots the new run would mistake for its own: choose another "
        "run name, or allow overwriting, which deletes them"
      )

  def has_remote_snapshots(self) -> bool:
    """Returns whether the remote location has snapshots of the run.

    Raises:
      OSError: the remote location can't be read.
    """
    if self._remote is None:
      return False
    try:
      return bool(self._remote.numbers())
    except Exception as error:  # any error of the package that reads it
      raise OSError(
        f"{self._describe_unreadable(error)}, so it is not known whether the "
        "run has snapshots there: try again once it can be read"
      ) from error

  def publish_config(self, clear: bool) -> None:
    """Copies config.json and spaces.json to the remote location, if any.

    Other machines can then resume the run from the remote location.

    Args:
      clear: whether to delete an older run at the remote location first.

    Raises:
      OSError: the remote location cannot be written.
    """
    if self._remote is None:
      return
    if clear:
      self._remote.clear()
    self._remote.put_config(self._run_path)

  def _describe_unreadable(self, error: Exception) -> str:
    """Returns text about an error in reading the remote location."""
    return (
      f"config.snapshot.url={self._url!r} cannot be read "
      f"({error_text.one_line(error)})"
    )

  def _path(self, number: int) -> pathlib.Path:
    """Returns the path of a snapshot's local folder."""
    return self._folder / f"{number:06d}"

  def _find_newest(
    self, remote: snapshot_location.SnapshotLocation | None
  ) -> Snapshot | None:
    """Returns the newest complete snapshot, or None if there is none.

    Args:
      remote: location from which a snapshot is downloaded if it is not on the
        local disk, or None to search the local disk only.
    """
    remote_numbers = remote.numbers() if remote else []
    numbers = {*self._local.numbers(), *remote_numbers}
    for number in sorted(numbers, reverse=True):
      with _skipping_damaged(number):
        if (
          remote
          and number in remote_numbers
          and not self._local.is_complete(number)
        ):
          self._download(remote, number)
        step = manifest.check(self._path(number)).step
        return Snapshot(self._path(number), number, step)
    return None

  def _download(
    self, remote: snapshot_location.SnapshotLocation, number: int
  ) -> None:
    """Downloads a snapshot and checks its files.

    Args:
      remote: location of the snapshot.
      number: number of the snapshot.

    Raises:
      ValueError: the snapshot is damaged.
    """
    with self._locked(wait=True):
      # Another process may have downloaded it meanwhile.
      if not self._local.is_complete(number):
        with self._new_snapshot(number) as hidden:
          remote.get(number, str(hidden.absolute()))
          manifest.check(hidden)

  @contextlib.contextmanager
  def _new_snapshot(self, number: int) -> Iterator[pathlib.Path]:
    """Yields a hidden folder, which becomes snapshot `number` after the block.

    The folder is synced to the disk and renamed. If the block raises an error,
    the folder is removed.
    """
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
      self._local.remove(number)
      os.rename(hidden, self._path(number))
    except BaseException:
      shutil.rmtree(hidden, ignore_errors=True)
      raise
    _sync(self._folder)

  @contextlib.contextmanager
  def _locked(self, wait: bool = False) -> Iterator[None]:
    """Locks the snapshots' folder against other writers while the block runs.

    Args:
      wait: whether to wait until another writer is done.

    Raises:
      RuntimeError: another process is writing a snapshot, and `wait` is False.
    """
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

  @contextlib.contextmanager
  def _as_url_error(self, use: str) -> Iterator[None]:
    """Converts any error of the block to a ValueError about the remote URL.

    Args:
      use: verb for the message "config.snapshot.url=... cannot be <use>", such
        as 'written'.
    """
    try:
      yield
    except Exception as error:
      raise ValueError(
        f"config.snapshot.url={self._url!r} cannot be {use} "
        f"({error_text.one_line(error)}), so no snapshot would be kept "
        "there: make it usable (install its package, grant access), or give "
        "another URL"
      ) from error


@contextlib.contextmanager
def _skipping_damaged(number: int) -> Iterator[None]:
  """Converts the block's error about a damaged snapshot to a warning.

  Args:
    number: number of the snapshot, for the warning.
  """
  try:
    yield
  except (ValueError, FileNotFoundError) as error:
    logging.warning(
      "snapshot %d is damaged and not used: %s",
      number,
      error_text.one_line(error),
    )


@contextlib.contextmanager
def _logging_errors(problem: str) -> Iterator[None]:
  """Converts the block's OSError to an error in the log.

  Args:
    problem: what the error prevents, as a sentence without a full stop.
  """
  try:
    yield
  except OSError as error:
    logging.error("%s: %s", problem, error_text.one_line(error))


def _sync(path: pathlib.Path) -> None:
  """Writes a file's or folder's cached data to the disk (fsync)."""
  descriptor = os.open(path, os.O_RDONLY)
  try:
    os.fsync(descriptor)
  finally:
    os.close(descriptor)
