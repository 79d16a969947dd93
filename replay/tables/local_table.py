"""LocalTable: a table of one process that draws equally when run twice."""

import json
import math
import pathlib

import numpy as np

from slipway.replay.items import priorities as priorities_lib
from slipway.replay.tables import local_queue, table_spec

_ROWS, _WEIGHTS, _COUNTS = "rows.npy", "weights.npy", "table.json"


def make_table(
  spec: table_spec.TableSpec, seed: int
) -> "LocalTable | local_queue.LocalQueue":
  """Makes the table of a run in one process.

  Args:
    spec: of the table.
    seed: of what is sampled.
  """
  row_bytes = math.prod(spec.schema.item_shape)
  if spec.consumed:
    return local_queue.LocalQueue(row_bytes)
  return LocalTable(spec.capacity, row_bytes, spec.priority_exponent, seed)


class LocalTable:
  """What a Reverb table does, in this process and from a seed.

  Reverb draws from an unseeded generator inside its server's threads, so that
  no two runs on it are equal. This table means the same: the oldest item is
  evicted, items are drawn with replacement in proportion to priority^exponent
  (uniformly where all are zero), keys never repeat. It is for one thread.

  ```python
  table = LocalTable(50_000, row_bytes, priority_exponent=0.6, seed=1)
  table.insert(items.rows, items.priorities)
  keys, probabilities, table_size, rows = table.sample(64)
  table.update_priorities(keys, priorities)
  table.save(folder)
  ```
  """

  def __init__(
    self,
    capacity: int,
    row_bytes: int,
    priority_exponent: float | None,
    seed: int,
  ):
    """Starts empty; memory is taken as rows arrive.

    Args:
      capacity: items held before the oldest is evicted.
      row_bytes: bytes an item.
      priority_exponent: alpha; None: uniform, priorities have no effect.
      seed: of what is drawn.
    """
    self._capacity = capacity
    self._exponent = priority_exponent
    self._random = np.random.default_rng(seed)
    self._rows = np.empty((capacity, row_bytes), np.uint8)
    # Node i is the sum of 2i and 2i+1; the item with key k is the leaf
    # `_leaves + (k - _gone) % capacity`. A power of two: all leaves are
    # equally deep.
    self._depth = (capacity - 1).bit_length()
    self._leaves = 1 << self._depth
    nodes = 0 if priority_exponent is None else 2 * self._leaves
    self._sums = np.zeros(nodes, np.float64)
    # Items that a smaller table had evicted before this one took its place.
    self._gone = 0
    self.inserted = 0  # items since the start; the next one's key
    self.sampled = 0  # items since the start

  @property
  def size(self) -> int:
    """Items held now."""
    return min(self.inserted - self._gone, self._capacity)

  def insert(self, rows: np.ndarray, priorities: np.ndarray) -> None:
    """Appends items, and evicts the oldest above the capacity.

    Args:
      rows: uint8 [M, row_bytes].
      priorities: float [M].

    Raises:
      ValueError: a priority is negative, infinite or not a number.
    """
    priorities_lib.check(priorities)
    keys = np.arange(self.inserted, self.inserted + len(rows))
    self.inserted += len(rows)
    # Of more than a capacity at once, the first are evicted by the last.
    slots = self._slots(keys[-self._capacity :])
    self._rows[slots] = rows[-self._capacity :]
    self._set(slots, priorities[-self._capacity :])

  def sample(
    self, batch_size: int
  ) -> tuple[np.ndarray, np.ndarray, int, np.ndarray]:
    """Draws items with replacement.

    Returns:
      keys uint64 [B], probabilities float64 [B] with which each was drawn,
      the table's size, and rows uint8 [B, row_bytes].

    Raises:
      ValueError: the table is empty.
    """
    if not self.inserted:
      raise ValueError("the table is empty, so nothing can be drawn: insert")
    self.sampled += batch_size
    if self._exponent is None or self._sums[1] == 0.0:
      slots = self._random.integers(self.size, size=batch_size)
      probabilities = np.full(batch_size, 1.0 / self.size)
    else:
      slots = self._descend(self._random.random(batch_size) * self._sums[1])
      probabilities = self._sums[self._leaves + slots] / self._sums[1]
    # The newest key that fell into each slot.
    laps = (self.inserted - self._gone - 1 - slots) // self._capacity
    keys = (slots + laps * self._capacity + self._gone).astype(np.uint64)
    return keys, probabilities, self.size, self._rows[slots]

  def update_priorities(self, keys: np.ndarray, priorities: np.ndarray) -> None:
    """Sets priorities; of a key given twice the last one holds.

    Args:
      keys: uint64 [B]; those that were evicted are left out.
      priorities: float [B].

    Raises:
      ValueError: a priority is negative, infinite or not a number.
    """
    priorities_lib.check(priorities)
    keys = keys.astype(np.int64)
    held = (keys >= self.inserted - self.size) & (keys < self.inserted)
    self._set(self._slots(keys[held]), priorities[held])

  def save(self, folder: pathlib.Path) -> None:
    """Writes all that the next draws depend on, uncompressed.

    Args:
      folder: is there, and empty.

    Raises:
      OSError: the disk refuses.
    """
    np.save(folder / _ROWS, self._rows[: self.size])
    if self._exponent is not None:
      leaves = self._sums[self._leaves : self._leaves + self.size]
      np.save(folder / _WEIGHTS, leaves)
    counts = {
      "capacity": self._capacity,
      "priority_exponent": self._exponent,
      "gone": self._gone,
      "inserted": self.inserted,
      "sampled": self.sampled,
      "random": self._random.bit_generator.state,
    }
    (folder / _COUNTS).write_text(json.dumps(counts), encoding="utf-8")

  def load(self, folder: pathlib.Path) -> None:
    """Goes on as the table would have that was saved; its capacity may differ.

    To be called on a table that is still empty.

    Args:
      folder: to which `save` wrote.

    Raises:
      ValueError: one line: the items cannot live in this table.
    """
    counts = json.loads((folder / _COUNTS).read_text(encoding="utf-8"))
    # Mapped: rows may be gigabytes, of which there is no need of two.
    rows = np.load(folder / _ROWS, mmap_mode="r")
    size, row_bytes = rows.shape
    if size > self._capacity or row_bytes != self._rows.shape[1]:
      raise ValueError(
        f"{str(folder)!r} holds {size:,} items of {row_bytes} bytes, but the "
        f"config's table {self._capacity:,} of {self._rows.shape[1]}: resume "
        "with the capacity and the environment they were saved with"
      )
    exponent = counts["priority_exponent"]
    if exponent != self._exponent:
      raise ValueError(
        f"{str(folder)!r} was saved with priority_exponent={exponent}, which "
        f"its weights have in them, but the config's is {self._exponent}: "
        "resume with the one it was saved with, or start anew"
      )
    self.inserted, self.sampled = counts["inserted"], counts["sampled"]
    self._random.bit_generator.state = counts["random"]
    self._gone, saved = counts["gone"], slice(size)
    if counts["capacity"] != self._capacity:
      # Once more from the first slot, oldest first.
      keys = np.arange(self.inserted - size, self.inserted)
      saved = (keys - self._gone) % counts["capacity"]
      self._gone = self.inserted - size
    self._rows[:size] = rows[saved]
    if self._exponent is not None:
      weights = np.load(folder / _WEIGHTS)[saved]
      self._sums[self._leaves : self._leaves + size] = weights
      self._sum_all()

  def check_valid(self) -> None:
    """Asserts what must hold between two calls; tests call it each time."""
    assert 0 <= self.size <= self._capacity
    if self._exponent is None:
      return
    parents, leaves = np.split(self._sums, 2)
    pairs = self._sums.reshape(-1, 2).sum(axis=1)
    assert (parents[1:] == pairs[1:]).all(), "a node is not its leaves' sum"
    assert (leaves >= 0).all(), "a negative weight would never be drawn"
    assert not leaves[self.size :].any(), "an empty slot would be drawn"

  def _slots(self, keys: np.ndarray) -> np.ndarray:
    return (keys - self._gone) % self._capacity

  def _set(self, slots: np.ndarray, priorities: np.ndarray) -> None:
    """Gives leaves new weights and sums their ancestors anew."""
    if self._exponent is None:
      return
    priorities = np.asarray(priorities, np.float64)
    nodes = self._leaves + slots
    # Reverb's rule: 0^0 is 0 here.
    self._sums[nodes] = (priorities > 0) * priorities**self._exponent
    for _ in range(self._depth):
      nodes = nodes >> 1
      self._sums[nodes] = self._sums[2 * nodes] + self._sums[2 * nodes + 1]

  def _sum_all(self) -> None:
    """Sums all nodes anew, from the leaves up."""
    for depth in reversed(range(self._depth)):
      first = 1 << depth
      below = self._sums[2 * first : 4 * first]
      self._sums[first : 2 * first] = below[::2] + below[1::2]

  def _descend(self, sums: np.ndarray) -> np.ndarray:
    """The slots [B] at which the weights, added up, exceed `sums` [B]."""
    nodes = np.ones(len(sums), np.int64)
    for _ in range(self._depth):
      nodes *= 2
      left = self._sums[nodes]
      # Rounding may leave more than the right half holds, never a draw of
      # what has no weight.
      right = (sums >= left) & (self._sums[nodes + 1] > 0.0)
      sums = sums - left * right
      nodes += right
    return nodes - self._leaves
