"""Saved table: reads the items of a table that a snapshot holds.

A checkpoint of Reverb is read from its files, without a server: that would need
the memory of the whole table.
"""

import json
import pathlib
import typing
from collections.abc import Callable, Iterator

import msgspec
import numpy as np

from slipway.replay.items import item_reader, snappy

_BLOCK = 1024  # TFRecords that are read at once


class Chosen(typing.NamedTuple):
  """Indices of the items whose content is read; the oldest item has 0.

  Attributes:
    last: items of which the last record is read, int64 [M]. It has all fields,
      but only one frame of a stack. Of G transitions per item, all are read.
    whole: items of which all records are read, int64 [K].
  """

  last: np.ndarray
  whole: np.ndarray


# Chooses items by the priorities of all, float64 [N].
Choose = Callable[[np.ndarray], Chosen]


class SavedTable(msgspec.Struct, kw_only=True):
  """The N items of one server's table at the moment of a snapshot.

  Items are in the order of their insertion, the oldest first. What the table
  does not store is None: that of mode `single` has neither times nor samples of
  single items, and no streams.

  Attributes:
    capacity: maximum number of items.
    inserted: items inserted so far.
    sampled: items sampled so far.
    unique_sampled: items that have been sampled at least once, evicted ones
      included.
    priority_exponent: alpha; None: sampling is uniform.
    priorities: priorities, float64 [N]; ones if there are none.
    times_sampled: samples of each item so far, int64 [N].
    inserted_at_s: unix seconds of the insertions, float64 [N].
    streams: identifier of the stream by which a worker sent each item, uint64
      [N].
    chosen: the items whose content has been read.
    last: last records of the items `chosen.last`, uint8 [M * G, record_bytes].
    whole: all records of the items `chosen.whole`, uint8 [K, W, record_bytes].
  """

  capacity: int
  inserted: int
  sampled: int
  unique_sampled: int | None = None
  priority_exponent: float | None
  priorities: np.ndarray
  times_sampled: np.ndarray | None = None
  inserted_at_s: np.ndarray | None = None
  streams: np.ndarray | None = None
  chosen: Chosen
  last: np.ndarray
  whole: np.ndarray

  @property
  def probabilities(self) -> np.ndarray:
    """Probability of sampling each item, float64 [N]."""
    exponent = self.priority_exponent
    weights = (self.priorities > 0) * self.priorities ** (exponent or 0.0)
    if exponent is None or not weights.any():
      weights = np.ones(len(self.priorities))
    return weights / max(1, weights.sum())


def read_local(
  folder: pathlib.Path, reader: item_reader.ItemReader, choose: Choose
) -> SavedTable:
  """Reads a table that `local_table.LocalTable.save` has written.

  Raises:
    OSError: a file can't be read.
  """
  counts = json.loads((folder / "table.json").read_text(encoding="utf-8"))
  exponent, inserted = counts["priority_exponent"], counts["inserted"]
  records = np.load(folder / "records.npy", mmap_mode="r")
  keys = np.arange(inserted - len(records), inserted)
  slots = (keys - counts["evicted"]) % counts["capacity"]
  priorities = np.ones(len(records))
  if exponent:
    priorities = np.load(folder / "weights.npy")[slots] ** (1 / exponent)
  chosen = choose(priorities)
  shape = (records.shape[1] // reader.record_bytes, reader.record_bytes)
  last, whole = (records[slots[x]].reshape(len(x), *shape) for x in chosen)
  if reader.has_frame_records:
    last = last[:, -1]
  return SavedTable(
    capacity=counts["capacity"],
    inserted=inserted,
    sampled=counts["sampled"],
    priority_exponent=exponent,
    priorities=priorities,
    chosen=chosen,
    last=last.reshape(-1, reader.record_bytes),
    whole=whole,
  )


def read_reverb(
  folder: pathlib.Path,
  table: str,
  reader: item_reader.ItemReader,
  choose: Choose,
) -> SavedTable:
  """Reads a table from a checkpoint of a Reverb server.

  Args:
    folder: the checkpoint's folder.
    table: name of the table.

  Raises:
    ValueError: a file is damaged, or has no such table.
    OSError: a file can't be read.
  """
  # Imported late: they load TensorFlow, which `read_local` does without.
  from reverb.cc import schema_pb2
  from reverb.cc.checkpointing import checkpoint_pb2

  from slipway.replay.tables import table_snapshot as names

  parse = checkpoint_pb2.PriorityTableCheckpoint.FromString
  tables = {x.table_name: x for x in _read(folder / names.TABLES, parse)}
  saved, rows, chunk_keys = tables[table], [], []
  parse = schema_pb2.PrioritizedItem.FromString
  for item in _read(folder / names.ITEMS, parse):
    if item.table == table:
      at, (column,) = item.inserted_at, item.flat_trajectory.columns
      rows.append((at.ToNanoseconds(), item.priority, item.times_sampled))
      chunk_keys.append([x.chunk_key for x in column.chunk_slices])
  types = [("at_ns", np.int64), ("priority", float), ("samples", np.int64)]
  numbers = np.array(rows, types)
  order = np.argsort(numbers["at_ns"], kind="stable")
  numbers = numbers[order]
  keys = np.array(chunk_keys or np.empty((0, 1)), np.uint64)[order]
  chosen = choose(numbers["priority"])
  wanted = {*keys[chosen.last, -1:].flat, *keys[chosen.whole].flat}
  streams, blocks = {}, {}
  parse = schema_pb2.ChunkData.FromString
  for chunk in _read(folder / names.CHUNKS, parse):
    key = chunk.chunk_key
    streams[key] = chunk.sequence_range.episode_id
    if key in wanted:
      data = snappy.decompress(chunk.data.tensors[0].tensor_content)
      blocks[key] = np.frombuffer(data, np.uint8)
      blocks[key].shape = -1, reader.record_bytes

  def join(rows: np.ndarray) -> np.ndarray:
    """Returns the records [M, W, bytes] of chunks by their keys [M, W]."""
    if not rows.size:
      return np.empty((0, 1, reader.record_bytes), np.uint8)
    found = [blocks[key] for key in rows.flat]
    return np.reshape(found, (len(rows), -1, reader.record_bytes))

  limiter, sampler = saved.rate_limiter, saved.sampler
  is_prioritized = sampler.HasField("prioritized")
  return SavedTable(
    capacity=saved.max_size,
    inserted=limiter.insert_count,
    sampled=limiter.sample_count,
    unique_sampled=saved.num_unique_samples,
    priority_exponent=(
      sampler.prioritized.priority_exponent if is_prioritized else None
    ),
    priorities=numbers["priority"],
    times_sampled=numbers["samples"],
    inserted_at_s=numbers["at_ns"] / 1e9,
    streams=np.array([streams[key] for key in keys[:, -1].flat], np.uint64),
    chosen=chosen,
    last=join(keys[chosen.last, -1:]).reshape(-1, reader.record_bytes),
    whole=join(keys[chosen.whole]),
  )


def _read(
  path: pathlib.Path, parse: Callable[[bytes], typing.Any]
) -> Iterator[typing.Any]:
  """Yields the parsed records of one of the checkpoint's files."""
  import tensorflow as tf

  from slipway.replay.tables import table_snapshot

  lines = tf.data.TFRecordDataset(str(path), table_snapshot.COMPRESSION)
  try:
    for block in lines.batch(_BLOCK).as_numpy_iterator():
      yield from map(parse, block)
  except tf.errors.OpError as error:
    raise ValueError(
      f"{str(path)!r} can't be read ({type(error).__name__}): inspect another "
      "snapshot"
    ) from error
