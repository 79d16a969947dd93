"""In-process queue of items, for runs in one process."""

import pathlib

import numpy as np

# Names of the files that `LocalQueue.save` writes: all items, and the counts of
# inserted and sampled items.
_RECORDS, _COUNTS = "records.npy", "counts.npy"


class LocalQueue:
  """In-process equivalent of a Reverb queue; not thread-safe.

  Each item is sampled once, the oldest first. The interface is that of
  `local_table.LocalTable`, but priorities have no effect.

  Attributes:
    inserted: number of items inserted so far, which is the next item's key.
    sampled: number of items sampled so far.
  """

  def __init__(self, record_bytes: int):
    """Makes an empty queue of items of `record_bytes` bytes."""
    self._records = np.empty((0, record_bytes), np.uint8)
    self.inserted = self.sampled = 0

  @property
  def size(self) -> int:
    """Number of items in the queue."""
    return len(self._records)

  def insert(self, records: np.ndarray, priorities: np.ndarray) -> None:
    """Appends M items, uint8 [M, record_bytes]; priorities have no effect."""
    del priorities
    self._records = np.concatenate([self._records, records])
    self.inserted += len(records)

  def sample(
    self, batch_size: int
  ) -> tuple[np.ndarray, np.ndarray, int, np.ndarray]:
    """Removes and returns the oldest items, of which there are enough."""
    size = self.size
    keys = np.arange(self.sampled, self.sampled + batch_size, dtype=np.uint64)
    records, self._records = np.split(self._records, [batch_size])
    self.sampled += batch_size
    return keys, np.ones(batch_size), size, records

  def save(self, folder: pathlib.Path) -> None:
    """Saves all items and counts to an empty folder, uncompressed."""
    np.save(folder / _RECORDS, self._records)
    np.save(folder / _COUNTS, np.array([self.inserted, self.sampled]))

  def load(self, folder: pathlib.Path) -> None:
    """Replaces all items and counts by those that `save` has written.

    Raises:
      ValueError: the size of the saved items is not `record_bytes`.
    """
    records = np.load(folder / _RECORDS)
    if records.shape[1] != self._records.shape[1]:
      raise ValueError(
        f"{str(folder)!r} holds items of {records.shape[1]} bytes, but the "
        f"config's have {self._records.shape[1]}: resume with the environment "
        "and the algorithm they were saved with"
      )
    self._records = records
    self.inserted, self.sampled = np.load(folder / _COUNTS).tolist()
