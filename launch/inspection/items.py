"""Items: those at both ends of a table's order, decoded field by field."""

import pathlib
import typing
from collections.abc import Mapping, Sequence

import msgspec
import numpy as np

from slipway.launch.inspection import pictures
from slipway.replay.items import item_reader
from slipway.replay.tables import saved_table

# Bytes of the items that are decoded at most for statistics, and their number.
_DECODED_BYTES, _MAX_DECODED = 16_000_000, 20_000
_MAX_SHOWN = 64  # values of a field that are listed


class Item(msgspec.Struct, kw_only=True):
  """One item of the table.

  Attributes:
    place: place in the order of the priorities, or of the ages if sampling is
      uniform, such as 'highest priority 1' or 'newest 1'.
    priority: its priority.
    probability: probability of sampling it.
    age_s: seconds since its insertion.
    times_sampled: its samples so far.
    fields: for each of its transitions, the fields by name. A large field has
      its shape, minimum, mean and maximum.
    pictures: paths of the pictures of its observations.
  """

  place: str
  priority: float
  probability: float
  age_s: float | None = None
  times_sampled: int | None = None
  fields: list[dict[str, typing.Any]]
  pictures: list[str] = []


class Chooser:
  """Chooses the items of each shard's table whose content is read."""

  def __init__(
    self, reader: item_reader.ItemReader, items: int, shards: int = 1
  ):
    """Makes a chooser.

    Args:
      items: number of items to decode at each end of the order.
      shards: number of tables, which share the items for statistics.
    """
    limit = min(_MAX_DECODED, _DECODED_BYTES // reader.record_bytes)
    self._limit, self._items = max(1, limit // shards), items

  def __call__(self, priorities: np.ndarray) -> saved_table.Chosen:
    """Returns the indices of random items, and of those at both ends."""
    size = len(priorities)
    last = np.arange(size)
    if size > self._limit:
      random = np.random.default_rng(0)
      last = np.sort(random.choice(size, self._limit, replace=False))
    # The newest first among items of equal priority.
    order = np.lexsort((-np.arange(size), -priorities))
    first, rest = order[: self._items], order[self._items :]
    lowest = rest[max(0, len(rest) - self._items) :]
    return saved_table.Chosen(last, np.concatenate([first, lowest]))


def read(
  tables: Sequence[saved_table.SavedTable],
  reader: item_reader.ItemReader,
  count: int,
  now_s: float,
  folder: pathlib.Path | None,
) -> list[Item]:
  """Returns the items at both ends of the order of all shards.

  Args:
    count: number of items at each end.
    now_s: unix seconds of the snapshot.
    folder: folder for pictures of observations, or None for no pictures.

  Raises:
    OSError: a picture can't be written.
  """
  found = [
    (table.priorities[i], i - len(table.priorities), table, i, content)
    for table in tables
    for i, content in zip(table.chosen.whole, table.whole, strict=True)
  ]
  found.sort(key=lambda x: x[:2], reverse=True)
  names = ("highest priority", "lowest priority")
  if tables[0].priority_exponent is None:
    names = ("newest", "oldest")
  ends = [(f"{names[0]} {i + 1}", x) for i, x in enumerate(found[:count])]
  rest = found[count:][::-1][:count]
  ends += [(f"{names[1]} {i + 1}", x) for i, x in enumerate(rest)]
  return [
    _describe(place, *x[2:], len(tables), reader, now_s, folder)
    for place, x in ends
  ]


def _describe(
  place: str,
  table: saved_table.SavedTable,
  i: int,
  content: np.ndarray,
  shards: int,
  reader: item_reader.ItemReader,
  now_s: float,
  folder: pathlib.Path | None,
) -> Item:
  """Returns a description of item i of a table."""
  item = Item(
    place=place,
    priority=float(table.priorities[i]),
    probability=float(table.probabilities[i]) / shards,
    fields=[],
  )
  if table.inserted_at_s is not None:
    item.age_s = max(0.0, now_s - float(table.inserted_at_s[i]))
  if table.times_sampled is not None:
    item.times_sampled = int(table.times_sampled[i])
  for fields in reader.read_item(content):
    if folder is not None:
      for name, values in fields.items():
        if pictures.is_image(values):
          stem = f"{place.replace(' ', '_')}_{name}"
          path = folder / f"{stem}_{len(item.fields)}.png"
          pictures.write(path, values)
          item.pictures.append(str(path))
    item.fields.append({k: _summarize(x) for k, x in fields.items()})
  return item


def _summarize(values: np.ndarray) -> typing.Any:
  """Returns a field as lists, or the shape and range of a large one."""
  if values.size <= _MAX_SHOWN:
    return values.tolist()
  summary: Mapping[str, typing.Any] = {
    "shape": list(values.shape),
    "minimum": values.min().item(),
    "mean": float(values.mean(dtype=np.float64)),
    "maximum": values.max().item(),
  }
  return summary
