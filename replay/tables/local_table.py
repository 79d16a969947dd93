"""In-process table of items, whose samples are reproducible with a seed."""

import json
import math
import pathlib

import numpy as np

from slipway.replay.items import priorities as priorities_lib
from slipway.replay.tables import local_queue, table_spec

# Names of the files that `LocalTable.save` writes: all items, their weights
# (priority^exponent), and the counts with the random generator's state.
_RECORDS, _WEIGHTS, _COUNTS = "records.npy", "weights.npy", "table.json"


def make_table(
  spec: table_spec.TableSpec, seed: int
) -> "LocalTable | local_queue.LocalQueue":
  """Makes the in-process table or queue of a spec.

  Args:
    spec: spec of the table; `spec.is_queue` selects a queue.
    seed: seed of the table's random sampling; a queue does not need it.
  """
  record_bytes = math.prod(spec.schema.item_shape)
  if spec.is_queue:
    return local_queue.LocalQueue(record_bytes)
  return LocalTable(spec.capacity, record_bytes, spec.priority_exponent, seed)


class LocalTable:
  """In-process equivalent of a Reverb table, with a seed; not thread-safe.

  Reverb samples with unseeded generators in its server's threads, so its runs
  are not reproducible. This table has the same semantics. It evicts the oldest
  item. It samples items with replacement in proportion to priority^exponent, or
  uniformly if all priorities are zero. It never uses a key twice.

  Attributes:
    inserted: number of items inserted so far, which is the next item's key.
    sampled: number of items sampled so far.
  """

  def __init__(
    self,
    capacity: int,
    record_bytes: int,
    priority_exponent: float | None,
    seed: int,
  ):
    """Makes an empty table; its memory is allocated as items arrive.

    Args:
      capacity: maximum number of items; further inserts evict the oldest ones.
      record_bytes: bytes of an item.
      priority_exponent: alpha, to which priorities are raised; None: sampling
        is uniform, and priorities have no effect.
    """
    self._capacity = capacity
    self._exponent = priority_exponent
    self._random = np.random.default_rng(seed)
    self._records = np.empty((capacity, record_bytes), np.uint8)
    # A sum tree: node i is the sum of nodes 2i and 2i+1. The item with key k is
    # the leaf `_leaves + (k - _evicted) % capacity`. The number of leaves is a
    # power of two, so all leaves are equally deep.
    self._depth = (capacity - 1).bit_length()
    self._leaves = 1 << self._depth
    nodes = 0 if priority_exponent is None else 2 * self._leaves
    self._sums = np.zeros(nodes, np.float64)
    # Items that a restored table with another capacity had evicted.
    self._evicted = 0
    self.inserted = 0
    self.sampled = 0

  @property
  def size(self) -> int:
    """Number of items in the table."""
    return min(self.inserted - self._evicted, self._capacity)

  def insert(self, records: np.ndarray, priorities: np.ndarray) -> None:
    """Inserts M items, and evicts the oldest ones above the capacity.

    Args:
      records: bytes of the items, uint8 [M, record_bytes].
      priorities: priorities of the items, float [M].

    Raises:
      ValueError: a priority is negative, infinite or not a number.
    """
    priorities_lib.check(priorities)
    keys = np.arange(self.inserted, self.inserted + len(records))
    self.inserted += len(records)
    # Of more items than the capacity, the last ones evict the first.
    slots = self._slots_of(keys[-self._capacity :])
    self._records[slots] = records[-self._capacity :]
    self._set_weights(slots, priorities[-self._capacity :])

  def sample(
    self, batch_size: int
  ) -> tuple[np.ndarray, np.ndarray, int, np.ndarray]:
    """Samples items with replacement, if there are any.

    Args:
      batch_size: B, the number of items.

    Returns:
      Keys uint64 [B], sampling probabilities float64 [B], the table's size, and
      records uint8 [B, record_bytes].
    """
    self.sampled += batch_size
    # The root of the tree of sums.
    total = 0.0 if self._exponent is None else self._sums[1]
    if total == 0.0:
      slots = self._random.integers(self.size, size=batch_size)
      probabilities = np.full(batch_size, 1.0 / self.size)
    else:
      slots = self._find_slots(self._random.random(batch_size) * total)
      probabilities = self._sums[self._leaves + slots] / total
    # A slot is used again after `capacity` inserts: its newest key counts.
    laps = (self.inserted - self._evicted - 1 - slots) // self._capacity
    keys = (slots + laps * self._capacity + self._evicted).astype(np.uint64)
    return keys, probabilities, self.size, self._records[slots]

  def update_priorities(self, keys: np.ndarray, priorities: np.ndarray) -> None:
    """Sets the priorities of items.

    Args:
      keys: keys of the items, uint64 [B]; keys of evicted items are ignored. If
        a key occurs twice, its last priority counts.
      priorities: new priorities, float [B].

    Raises:
      ValueError: a priority is negative, infinite or not a number.
    """
    priorities_lib.check(priorities)
    keys = keys.astype(np.int64)
    held = (keys >= self.inserted - self.size) & (keys < self.inserted)
    self._set_weights(self._slots_of(keys[held]), priorities[held])

  def save(self, folder: pathlib.Path) -> None:
    """Saves items, weights, counts and random state, uncompressed.

    Raises:
      OSError: the files cannot be written.
    """
    np.save(folder / _RECORDS, self._records[: self.size])
    if self._exponent is not None:
      leaves = self._sums[self._leaves : self._leaves + self.size]
      np.save(folder / _WEIGHTS, leaves)
    counts = {
      "capacity": self._capacity,
      "priority_exponent": self._exponent,
      "evicted": self._evicted,
      "inserted": self.inserted,
      "sampled": self.sampled,
      "random": self._random.bit_generator.state,
    }
    (folder / _COUNTS).write_text(json.dumps(counts), encoding="utf-8")

  def load(self, folder: pathlib.Path) -> None:
    """Restores the state that `save` has written, into an empty table.

    Args:
      folder: the folder that was passed to `save`, by a table whose capacity
        may differ.

    Raises:
      ValueError: the items are too many or of another size, or were saved with
        another priority exponent.
    """
    counts = json.loads((folder / _COUNTS).read_text(encoding="utf-8"))
    # Mapped, as records may be gigabytes, which need not be in memory twice.
    records = np.load(folder / _RECORDS, mmap_mode="r")
    size, record_bytes = records.shape
    if size > self._capacity or record_bytes != self._records.shape[1]:
      raise ValueError(
        f"{str(folder)!r} has {size:,} items of {record_bytes} bytes, but the "
        f"config's table takes {self._capacity:,} of {self._records.shape[1]}: "
        "resume with the capacity and the environment they were saved with"
      )
    exponent = counts["priority_exponent"]
    if exponent != self._exponent:
      raise ValueError(
        f"{str(folder)!r} was saved with priority_exponent={exponent}, on "
        f"which its weights depend, but the config's is {self._exponent}: "
        "resume with the exponent it was saved with, or start a new run"
      )
    self.inserted, self.sampled = counts["inserted"], counts["sampled"]
    self._random.bit_generator.state = counts["random"]
    self._evicted, saved = counts["evicted"], slice(size)
    if counts["capacity"] != self._capacity:
      # The oldest item moves to the first slot.
      keys = np.arange(self.inserted - size, self.inserted)
      saved = (keys - self._evicted) % counts["capacity"]
      self._evicted = self.inserted - size
    self._records[:size] = records[saved]
    if self._exponent is not None:
      weights = np.load(folder / _WEIGHTS)[saved]
      self._sums[self._leaves : self._leaves + size] = weights
      self._rebuild_sums()

  def _slots_of(self, keys: np.ndarray) -> np.ndarray:
    """Returns the slots (indices in `_records`) of items by their keys."""
    return (keys - self._evicted) % self._capacity

  def _set_weights(self, slots: np.ndarray, priorities: np.ndarray) -> None:
    """Sets the weights of slots, and the sums above them in the tree."""
    if self._exponent is None:
      return
    priorities = np.asarray(priorities, np.float64)
    nodes = self._leaves + slots
    # Reverb's rule: 0^0 is 0 here.
    self._sums[nodes] = (priorities > 0) * priorities**self._exponent
    for _ in range(self._depth):
      nodes = nodes >> 1
      self._sums[nodes] = self._sums[2 * nodes] + self._sums[2 * nodes + 1]

  def _rebuild_sums(self) -> None:
    """Computes all inner nodes of the sum tree from its leaves."""
    for depth in reversed(range(self._depth)):
      first = 1 << depth
      below = self._sums[2 * first : 4 * first]
      self._sums[first : 2 * first] = below[::2] + below[1::2]

  def _find_slots(self, sums: np.ndarray) -> np.ndarray:
    """Returns the first slots at which the cumulative weight exceeds a sum."""
    nodes = np.ones(len(sums), np.int64)
    for _ in range(self._depth):
      nodes *= 2
      left = self._sums[nodes]
      # By rounding, `sums` may exceed the right half; a node without weight
      # is never chosen.
      right = (sums >= left) & (self._sums[nodes + 1] > 0.0)
      sums = sums - left * right
      nodes += right
    return nodes - self._leaves
