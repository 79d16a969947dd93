"""LocalQueue: an in-process queue, for runs in one process."""

import pathlib

import numpy as np

_RECORDS, _COUNTS = "records.npy", "counts.npy"


class LocalQueue:
  """An in-process equivalent of a Reverb queue, for one thread.

  The interface is that of `local_table.LocalTable`, without priorities.

  ```python
  queue = LocalQueue(record_bytes)
  queue.insert(records, priorities)
  keys, probabilities, size, records = queue.sample(8)
  ```

  Attributes:
    inserted: items inserted so far; the key of the next one.
    sampled: items sampled so far.
  """

  def __init__(self, record_bytes: int):
    """Starts empty.

    Args:
      record_bytes: bytes of an item.
    """
    self._records = np.empty((0, record_bytes), np.uint8)
    self.inserted = self.sampled = 0

  @property
  def size(self) -> int:
    """Items in the queue."""
    return len(self._records)

  def insert(self, records: np.ndarray, priorities: np.ndarray) -> None:
    """Appends items.

    Args:
      records: uint8 [M, record_bytes].
      priorities: have no effect.
    """
    del priorities
    self._records = np.concatenate([self._records, records])
    self.inserted += len(records)

  def sample(
    self, batch_size: int
  ) -> tuple[np.ndarray, np.ndarray, int, np.ndarray]:
    """Removes and returns the oldest items.

    Returns:
      Keys, probabilities, the size before, and records, as `LocalTable.sample`.

    Raises:
      ValueError: the queue has fewer items.
    """
    size = self.size
    if size < batch_size:
      raise ValueError(
        f"batch_size={batch_size} is more than the {size} items in the queue, "
        "so no batch can be sampled: insert more"
      )
    keys = np.arange(self.sampled, self.sampled + batch_size, dtype=np.uint64)
    records, self._records = np.split(self._records, [batch_size])
    self.sampled += batch_size
    return keys, np.ones(batch_size), size, records

  def save(self, folder: pathlib.Path) -> None:
    """Saves the whole state, uncompressed.

    Args:
      folder: an empty one.

    Raises:
      OSError: the disk rejects the files.
    """
    np.save(folder / _RECORDS, self._records)
    np.save(folder / _COUNTS, np.array([self.inserted, self.sampled]))

  def load(self, folder: pathlib.Path) -> None:
    """Restores the state that `save` has written.

    Args:
      folder: the folder that was passed to `save`.

    Raises:
      ValueError: the items in the folder have another size.
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
