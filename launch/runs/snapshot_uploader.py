"""SnapshotUploader: copies snapshots to a store while the run goes on."""

import threading

from absl import logging

from launch.runs import snapshot_store, snapshots


class SnapshotUploader:
  """Copies the newest snapshot, in a thread of its own.

  What is not copied when a newer one comes is left out, unless it is the best:
  where the store is slower than the run, it has the newest that it can have.

  ```python
  uploader = SnapshotUploader(store, keep=2)
  uploader.offer(snapshot, best=True)
  uploader.wait(timeout_s=4.0)
  ```
  """

  def __init__(self, store: snapshot_store.SnapshotStore | None, keep: int):
    """Copies nothing yet.

    Args:
      store: of the run; None: nothing is ever copied.
      keep: how many of the newest stay there, beside the best one.
    """
    self._store, self._keep = store, keep
    self._lock = threading.Lock()
    self._due: list[snapshots.Snapshot] = []  # at most the best and the newest
    self._best: snapshots.Snapshot | None = None  # that the store lacks
    self._copying: snapshots.Snapshot | None = None
    self._thread: threading.Thread | None = None
    self._uploaded: int | None = None
    self._failures = 0

  def in_use(self) -> set[int]:
    """Numbers of the snapshots that are still to be read."""
    with self._lock:
      wanted = (*self._due, self._best, self._copying)
      return {snapshot.number for snapshot in wanted if snapshot is not None}

  def offer(self, snapshot: snapshots.Snapshot, best: bool) -> None:
    """Begins to copy a snapshot; returns at once.

    Args:
      snapshot: whole, the newest of the run. It must stay until `in_use` says
        no more.
      best: whether it is kept as the best one.
    """
    if self._store is None:
      return
    with self._lock:
      if best:
        self._best = snapshot
      due = {s.number: s for s in (self._best, snapshot) if s is not None}
      self._due = [due[number] for number in sorted(due)]
      if self._thread is None:
        self._thread = threading.Thread(
          target=self._run, args=(self._store,), name="upload", daemon=True
        )
        self._thread.start()

  def wait(self, timeout_s: float) -> bool:
    """Waits until nothing is being copied, at most for so long.

    Args:
      timeout_s: seconds.

    Returns:
      Whether that is so.
    """
    thread = self._thread
    if thread is not None:
      thread.join(max(0.0, timeout_s))
    return thread is None or not thread.is_alive()

  @property
  def uploaded(self) -> int | None:
    """Number of the newest snapshot in the store; None: there is none."""
    return self._uploaded

  @property
  def failures(self) -> int:
    """Number of uploads that failed."""
    return self._failures

  def _run(self, store: snapshot_store.SnapshotStore) -> None:
    while (snapshot := self._next()) is not None:
      self._try_to_copy(store, snapshot)

  def _try_to_copy(
    self, store: snapshot_store.SnapshotStore, snapshot: snapshots.Snapshot
  ) -> None:
    try:
      self._copy(store, snapshot)
    except Exception as error:  # The run goes on without this one.
      self._failures += 1
      said = snapshot_store.said(error)
      logging.error(
        "snapshot %d could not be uploaded: %s", snapshot.number, said
      )

  def _copy(
    self, store: snapshot_store.SnapshotStore, snapshot: snapshots.Snapshot
  ) -> None:
    store.upload(snapshot)
    self._uploaded = snapshot.number
    logging.info("snapshot %d is uploaded", snapshot.number)
    if self._best == snapshot:
      store.mark_best(snapshot.number)
      with self._lock:
        if self._best == snapshot:
          self._best = None
    store.prune(self._keep)

  def _next(self) -> snapshots.Snapshot | None:
    with self._lock:
      self._copying = self._due.pop(0) if self._due else None
      if self._copying is None:
        self._thread = None
      return self._copying
