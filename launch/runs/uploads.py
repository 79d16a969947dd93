"""Uploads: copies snapshots to a remote location in a background thread."""

import threading
import typing

from absl import logging

from slipway.launch.runs import error_text, snapshot_location


class Uploads:
  """Copies the newest and the best snapshot of a run in a background thread.

  A snapshot whose copy has not begun when a newer one is added is skipped,
  unless it is the best. Failed uploads are counted. A failed upload of the best
  snapshot is retried when the next snapshot is added, others by `retry` only.
  """

  def __init__(
    self,
    local: snapshot_location.SnapshotLocation,
    remote: snapshot_location.SnapshotLocation | None,
    keep: int,
  ):
    """Starts without a snapshot to copy.

    Args:
      local: location at which snapshots are written.
      remote: location to which snapshots are copied, or None for no uploads.
      keep: number of the newest snapshots to keep at the remote location, in
        addition to the best one.
    """
    self._local, self._remote, self._keep = local, remote, keep
    self._lock = threading.Lock()
    # Numbers of the snapshots to copy: at most the best and the newest.
    self._due: list[int] = []
    self._best: int | None = None  # the best snapshot, until it is uploaded
    self._newest: int | None = None  # the newest one, until it is uploaded
    self._copying: int | None = None  # the snapshot that is being copied
    self._thread: threading.Thread | None = None
    self._uploaded: int | None = None  # the snapshot that was uploaded last
    self._failures = 0

  def in_use(self) -> set[int]:
    """Returns the numbers of the local snapshots that must not be removed yet.

    Their uploads are pending, or have failed.
    """
    with self._lock:
      pending = (self._best, self._newest, self._copying)
      return {number for number in pending if number is not None}

  def add(self, number: int, is_best: bool) -> None:
    """Queues the newest snapshot for its upload, and returns at once.

    Args:
      number: number of the snapshot, which is complete.
      is_best: whether the snapshot is also the best one.
    """
    if self._remote is None:
      return
    with self._lock:
      if is_best:
        self._best = number
      self._newest = number
      self._start(self._remote)

  def retry(self) -> None:
    """Queues failed uploads of the newest and the best snapshot again."""
    if self._remote is None:
      return
    with self._lock:
      if self._thread is None:
        self._start(self._remote)

  def wait(self, timeout_s: float) -> bool:
    """Waits until all uploads are done, and returns whether they are.

    Args:
      timeout_s: longest wait in seconds.
    """
    thread = self._thread
    if thread is not None:
      thread.join(max(0.0, timeout_s))
    return thread is None or not thread.is_alive()

  def metrics(self) -> dict[str, typing.Any]:
    """Returns the counts of uploads for a `messages.SnapshotReport`.

    They are 'uploaded', the number of the last uploaded snapshot or None, and
    'upload_failures', the number of failed uploads.
    """
    return {
      "uploaded": self._uploaded,
      "upload_failures": self._failures,
    }

  def _start(self, remote: snapshot_location.SnapshotLocation) -> None:
    """Queues the snapshots to upload, and starts the thread; under the lock.

    Args:
      remote: location to which the snapshots are copied.
    """
    numbers = {self._best, self._newest}
    self._due = sorted(number for number in numbers if number is not None)
    if self._due and self._thread is None:
      self._thread = threading.Thread(
        target=self._run, args=(remote,), name="upload", daemon=True
      )
      self._thread.start()

  def _run(self, remote: snapshot_location.SnapshotLocation) -> None:
    """Copies queued snapshots until none is left; the thread's function."""
    while (number := self._take_next()) is not None:
      self._copy(remote, number)

  def _copy(
    self, remote: snapshot_location.SnapshotLocation, number: int
  ) -> None:
    """Uploads a snapshot and removes old ones; counts and logs a failure.

    Args:
      remote: location to which the snapshot is copied.
      number: number of the snapshot.
    """
    try:
      remote.put(number, self._local.path(number))
      self._uploaded = number
      logging.info("snapshot %d is uploaded", number)
      # After a move and back, another machine may have marked a newer one.
      if self._best == number and (remote.best() or 0) < number:
        remote.mark_best(number)
      with self._lock:
        self._best = None if self._best == number else self._best
        self._newest = None if self._newest == number else self._newest
      remote.prune(self._keep)
    except Exception as error:  # the run continues without this upload
      self._failures += 1
      text = error_text.one_line(error)
      logging.error("snapshot %d could not be uploaded: %s", number, text)

  def _take_next(self) -> int | None:
    """Returns the number of the next snapshot to copy, or None without one.

    With None, the thread must end.
    """
    with self._lock:
      self._copying = self._due.pop(0) if self._due else None
      if self._copying is None:
        self._thread = None
      return self._copying
