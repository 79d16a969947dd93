"""LocalQueue: a queue of one process, whose items are taken out once."""

import pathlib

import numpy as np

_ROWS, _COUNTS = "rows.npy", "counts.npy"


class LocalQueue:
  """What a Reverb queue does, in this process and for one thread.

  Has the interface of `local_table.LocalTable`.

  ```python
  queue = LocalQueue(row_bytes)
  queue.insert(rows, priorities)
  keys, probabilities, size, rows = queue.sample(8)
  ```

  Attributes:
    inserted: items since the start; the next one's key.
    sampled: items since the start.
  """

  def __init__(self, row_bytes: int):
    """Starts empty.

    Args:
      row_bytes: bytes of an item.
    """
    self._rows = np.empty((0, row_bytes), np.uint8)
    self.inserted = self.sampled = 0

  @property
  def size(self) -> int:
    """Items that wait."""
    return len(self._rows)

  def insert(self, rows: np.ndarray, priorities: np.ndarray) -> None:
    """Appends items.

    Args:
      rows: uint8 [M, row_bytes].
      priorities: of no effect here.
    """
    del priorities
    self._rows = np.concatenate([self._rows, rows])
    self.inserted += len(rows)

  def sample(
    self, batch_size: int
  ) -> tuple[np.ndarray, np.ndarray, int, np.ndarray]:
    """Takes the oldest items out.

    Returns:
      As `LocalTable.sample`: keys, probabilities, the size before, rows.

    Raises:
      ValueError: fewer items wait.
    """
    size = self.size
    if size < batch_size:
      raise ValueError(
        f"batch_size={batch_size} is more than the {size} items that wait in "
        "the queue, so no batch can be taken: insert more"
      )
    keys = np.arange(self.sampled, self.sampled + batch_size, dtype=np.uint64)
    rows, self._rows = np.split(self._rows, [batch_size])
    self.sampled += batch_size
    return keys, np.ones(batch_size), size, rows

  def save(self, folder: pathlib.Path) -> None:
    """Writes all that the next samples depend on.

    Args:
      folder: exists, and is empty.

    Raises:
      OSError: the disk rejects the files.
    """
    np.save(folder / _ROWS, self._rows)
    np.save(folder / _COUNTS, np.array([self.inserted, self.sampled]))

  def load(self, folder: pathlib.Path) -> None:
    """Continues as the queue that was saved.

    Args:
      folder: to which `save` wrote.

    Raises:
      ValueError: its items have another size.
    """
    rows = np.load(folder / _ROWS)
    if rows.shape[1] != self._rows.shape[1]:
      raise ValueError(
        f"{str(folder)!r} holds items of {rows.shape[1]} bytes, but the "
        f"config's have {self._rows.shape[1]}: resume with the environment "
        "and the algorithm they were saved with"
      )
    self._rows = rows
    self.inserted, self.sampled = np.load(folder / _COUNTS).tolist()
