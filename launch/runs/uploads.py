"""Uploads: copies a run's snapshots to a remote place in the background."""

import threading
import typing

from absl import logging

from slipway.launch.runs import place


class Uploads:
  """Copies the newest and the best snapshot, in a thread of its own.

  A snapshot that still waits when a newer one comes is left out, unless it is
  the best: a place that is slower than the run has the newest that it can have.
  A failed upload is counted; a failed best one is tried again with the next.
  """

  def __init__(self, local: place.Place, remote: place.Place | None, keep: int):
    """Copies nothing yet.

    Args:
      local: where the snapshots are written.
      remote: where they are copied to; None: nothing is ever copied.
      keep: how many of the newest stay there, beside the best one.
    """
    self._local, self._remote, self._keep = local, remote, keep
    self._lock = threading.Lock()
    self._due: list[int] = []  # at most the best and the newest
    self._best: int | None = None  # that the remote place lacks
    self._copying: int | None = None
    self._thread: threading.Thread | None = None
    self._uploaded: int | None = None
    self._failures = 0

  def in_use(self) -> set[int]:
    """Numbers of the snapshots that have to stay on the disk."""
    with self._lock:
      wanted = (*self._due, self._best, self._copying)
      return {number for number in wanted if number is not None}

  def add(self, number: int, is_best: bool) -> None:
    """Begins to copy a snapshot; returns at once.

    Args:
      number: of the newest snapshot, which is whole.
      is_best: whether it is also the best.
    """
    if self._remote is None:
      return
    with self._lock:
      if is_best:
        self._best = number
      self._due = sorted({self._best or number, number})
      if self._thread is None:
        self._thread = threading.Thread(
          target=self._run, args=(self._remote,), name="upload", daemon=True
        )
        self._thread.start()

  def wait(self, timeout_s: float) -> bool:
    """Waits until nothing is being copied; returns whether that is so."""
    thread = self._thread
    if thread is not None:
      thread.join(max(0.0, timeout_s))
    return thread is None or not thread.is_alive()

  def metrics(self) -> dict[str, typing.Any]:
    """The last snapshot that was uploaded, and how many failed."""
    return {
      "uploaded": self._uploaded,
      "upload_failures": self._failures,
    }

  def _run(self, remote: place.Place) -> None:
    while (number := self._next()) is not None:
      self._copy(remote, number)

  def _copy(self, remote: place.Place, number: int) -> None:
    try:
      remote.put(number, self._local.path(number))
      self._uploaded = number
      logging.info("snapshot %d is uploaded", number)
      if self._best == number:
        remote.mark_best(number)
        with self._lock:
          if self._best == number:
            self._best = None
      remote.prune(self._keep)
    except Exception as error:  # The run continues without this upload.
      self._failures += 1
      said = place.one_line(error)
      logging.error("snapshot %d could not be uploaded: %s", number, said)

  def _next(self) -> int | None:
    with self._lock:
      self._copying = self._due.pop(0) if self._due else None
      if self._copying is None:
        self._thread = None
      return self._copying
