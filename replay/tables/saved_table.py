"""Saved table: reads the items of a table that a snapshot holds.

A checkpoint of Reverb is read from its files, without a server: that would need
the memory of the whole table.
"""

import json
import math
import pathlib
import typing
from collections.abc import Iterator, Sequence

import msgspec
import numpy as np
import tensorflow as tf
from google.protobuf import wrappers_pb2
from reverb.cc import schema_pb2
from reverb.cc.checkpointing import checkpoint_pb2
from tensorflow.core.framework import dataset_pb2, tensor_pb2, types_pb2

from slipway.replay.tables import table_snapshot, tables

# Items whose content is read at most, at random, and their bytes.
_MAX_READ, _MAX_BYTES = 20_000, 16_000_000
_MAX_JOINED = 1 << 28  # bytes that are decompressed at once; Snappy: 2**32


class SavedTable(msgspec.Struct, kw_only=True):
  """The N items of a table at the moment of a snapshot, the oldest first.

  Attributes:
    counts: `capacity`, the maximum number of items; `inserted` and `sampled`,
      numbers of items so far. Reverb's tables also have `unique_sampled`, items
      that have been sampled at least once, evicted ones included.
    priority_exponent: alpha; None: sampling is uniform.
    columns: numbers of each item, [N] by name: its `priority`, which is 1 in
      uniform sampling, and the `probability` of sampling it. Reverb's tables
      also have `times_sampled` and `age_s`, seconds from the item's insertion
      to that of the newest one.
    streams: identifier of the stream by which a worker sent each item, [N];
      None: the table has no streams.
    order: indices of the items by priority, the highest and newest first, [N].
    read: indices of the items whose content has been read, ascending, [K].
    content: their bytes, uint8 [K, *item_shape].
  """

  counts: dict[str, int]
  priority_exponent: float | None
  columns: dict[str, np.ndarray]
  streams: np.ndarray | None = None
  order: np.ndarray
  read: np.ndarray
  content: np.ndarray


def read(
  folders: Sequence[pathlib.Path],
  item_shape: tuple[int, ...],
  ends: int | None = None,
) -> SavedTable:
  """Reads a table from a snapshot.

  Args:
    folders: folder of `local_table.LocalTable.save`, or of each Reverb server's
      checkpoint.
    ends: number of items to read at each end of the order, besides random ones,
      which are all in a small table; None: all items are read.

  Raises:
    ValueError: a file is damaged.
    OSError: a file can't be read.
  """
  if (folders[0] / "table.json").exists():
    return _read_local(folders[0], item_shape, ends)
  return _read_reverb(folders, item_shape, ends)


def _read_local(
  folder: pathlib.Path, item_shape: tuple[int, ...], ends: int | None
) -> SavedTable:
  saved = json.loads((folder / "table.json").read_text(encoding="utf-8"))
  exponent, inserted = saved["priority_exponent"], saved["inserted"]
  records = np.load(folder / "records.npy", mmap_mode="r")
  keys = np.arange(inserted - len(records), inserted)
  slots = (keys - saved["evicted"]) % saved["capacity"]
  priorities = np.ones(len(records))
  if exponent:
    priorities = np.load(folder / "weights.npy")[slots] ** (1 / exponent)
  order, chosen = _choose(priorities, item_shape, ends)
  return SavedTable(
    counts={name: saved[name] for name in ("capacity", "inserted", "sampled")},
    priority_exponent=exponent,
    columns={
      "priority": priorities,
      "probability": _compute_probabilities(priorities, exponent, 0 * keys),
    },
    order=order,
    read=chosen,
    content=records[slots[chosen]].reshape(-1, *item_shape),
  )


def _read_reverb(
  folders: Sequence[pathlib.Path],
  item_shape: tuple[int, ...],
  ends: int | None,
) -> SavedTable:
  rows, keys = [], []
  kind = checkpoint_pb2.PriorityTableCheckpoint
  saved = _parse(folders, table_snapshot.TABLES, kind)
  shards = [x for _, x in saved if x.table_name == tables.TRANSITIONS]
  kind = schema_pb2.PrioritizedItem
  for shard, item in _parse(folders, table_snapshot.ITEMS, kind):
    if item.table == tables.TRANSITIONS:
      at_ns = item.inserted_at.ToNanoseconds()
      rows.append((at_ns, item.priority, item.times_sampled, shard))
      (column,) = item.flat_trajectory.columns
      keys.append([x.chunk_key for x in column.chunk_slices])
  numbers = np.array(rows, "i8, f8, i8, i8")
  by_age = np.argsort(numbers["f0"], kind="stable")
  at_ns, priorities, samples, shard = (
    numbers[name][by_age] for name in ("f0", "f1", "f2", "f3")
  )
  keys = np.array(keys or np.empty((0, 1)), np.uint64)[by_age]
  sampler, exponent = shards[0].sampler, None
  if sampler.HasField("prioritized"):
    exponent = sampler.prioritized.priority_exponent
  else:
    priorities = np.ones_like(priorities)
  order, chosen = _choose(priorities, item_shape, ends)
  streams, blocks = {}, dict.fromkeys(keys[chosen].flat, b"")
  kind = schema_pb2.ChunkData
  for _, chunk in _parse(folders, table_snapshot.CHUNKS, kind):
    streams[chunk.chunk_key] = chunk.sequence_range.episode_id
    if chunk.chunk_key in blocks:
      blocks[chunk.chunk_key] = chunk.data.tensors[0].tensor_content
  size = math.prod(item_shape) // keys.shape[1]
  found, names, step = {}, [*blocks], max(1, _MAX_JOINED // size)
  for part in (names[i : i + step] for i in range(0, len(names), step)):
    contents = _decompress([blocks[name] for name in part], size)
    found |= zip(part, contents, strict=True)
  content = [found[key] for key in keys[chosen].flat]
  return SavedTable(
    counts={
      "capacity": sum(x.max_size for x in shards),
      "inserted": sum(x.rate_limiter.insert_count for x in shards),
      "sampled": sum(x.rate_limiter.sample_count for x in shards),
      "unique_sampled": sum(x.num_unique_samples for x in shards),
    },
    priority_exponent=exponent,
    columns={
      "priority": priorities,
      "probability": _compute_probabilities(priorities, exponent, shard),
      "times_sampled": samples,
      "age_s": (at_ns.max(initial=0) - at_ns) / 1e9,
    },
    streams=np.array([streams[x] for x in keys[:, -1].flat], np.uint64),
    order=order,
    read=chosen,
    content=np.array(content, np.uint8).reshape(-1, *item_shape),
  )


def _choose(
  priorities: np.ndarray, item_shape: tuple[int, ...], ends: int | None
) -> tuple[np.ndarray, np.ndarray]:
  """Returns `SavedTable.order`, and `SavedTable.read`."""
  limit = max(1, min(_MAX_READ, _MAX_BYTES // math.prod(item_shape)))
  size = len(priorities)
  order = np.lexsort((-np.arange(size), -priorities))
  if ends is None:
    return order, np.arange(size)
  random = np.random.default_rng(0).permutation(size)[:limit]
  last = order[max(0, size - ends) :]
  return order, np.unique(np.concatenate([random, order[:ends], last]))


def _compute_probabilities(
  priorities: np.ndarray, exponent: float | None, shards: np.ndarray
) -> np.ndarray:
  """Returns the probability of sampling each item, by its shard's index."""
  weights = np.where(priorities > 0, priorities ** (exponent or 0.0), 0.0)
  weights[np.bincount(shards, weights)[shards] == 0] = 1.0
  # Batches come from all shards in turn.
  return weights / np.bincount(shards, weights)[shards] / len(set(shards))


def _parse(
  folders: Sequence[pathlib.Path], name: str, kind: typing.Any
) -> Iterator[tuple[int, typing.Any]]:
  """Yields the records of a file of each checkpoint, with the index of that."""
  for i, folder in enumerate(folders):
    path = str(folder / name)
    lines = tf.data.TFRecordDataset(path, table_snapshot.COMPRESSION)
    try:
      for block in lines.batch(1024).as_numpy_iterator():
        yield from ((i, kind.FromString(x)) for x in block)
    except tf.errors.OpError as error:
      raise ValueError(
        f"{path!r} can't be read ({type(error).__name__}): use another snapshot"
      ) from error


def _decompress(blocks: Sequence[bytes], size: int) -> np.ndarray:
  """Returns the contents of M blocks of Snappy, uint8 [M, size]."""
  # TensorFlow decompresses an element of a dataset. One call per block would
  # take a millisecond. A block is its size, as a varint, and operations whose
  # offsets are relative. So the operations of all blocks, joined, are those of
  # one block. See
  # https://github.com/google/snappy/blob/main/format_description.txt.
  if not blocks:
    return np.empty((0, size), np.uint8)
  total, start = size * len(blocks), len(_to_varint(size))
  joined = b"".join([_to_varint(total), *(x[start:] for x in blocks)])
  element = dataset_pb2.CompressedElement(data=joined)
  parts: typing.Any = element.component_metadata
  parts.add(dtype=types_pb2.DT_UINT8, uncompressed_bytes=[total])
  parts[0].tensor_shape.dim.add(size=total)
  variant: typing.Any = tensor_pb2.TensorProto(dtype=types_pb2.DT_VARIANT)
  variant.variant_val.add(
    type_name="tensorflow.data.CompressedElement",
    metadata=element.SerializeToString(),
  )
  variant.tensor_shape.SetInParent()  # a scalar
  (found,) = tf.raw_ops.UncompressElement(
    compressed=tf.io.parse_tensor(variant.SerializeToString(), tf.variant),
    output_types=[tf.uint8],
    output_shapes=[[total]],
  )
  return found.numpy().reshape(len(blocks), size)


def _to_varint(number: int) -> bytes:
  """Returns a positive number as Protocol Buffers store it."""
  return wrappers_pb2.UInt64Value(value=number).SerializeToString()[1:]
