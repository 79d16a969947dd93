"""Item reader: decodes items by the description in a snapshot's items.json."""

import typing
from collections.abc import Mapping

import numpy as np

from slipway.replay.items import frame_windows, packing, transitions


class ItemReader:
  """Reads the fields of items, without the schema that wrote them.

  Attributes:
    kind: what an item is: 'transition', 'sequence', or that of a user's schema.
    record_bytes: bytes of one of the item's records.
    has_frame_records: whether the item's records are a frame each, of which
      only the last one has the item's fields.
  """

  def __init__(self, description: Mapping[str, typing.Any]):
    """Makes a reader.

    Args:
      description: result of `table_spec.ItemSchema.describe`.

    Raises:
      ValueError: the description lacks an entry.
    """
    try:
      self.kind = str(description["item"])
      self._fields = packing.from_description(
        description["fields"], description["record_bytes"]
      )
      self._frames = description.get("frames")
      self.record_bytes = self._fields.itemsize
      self.has_frame_records = "records_per_item" in (self._frames or {})
      if self._frames is not None:
        self._stack = tuple(self._frames["stack"])
        self._frame_bytes = self._frames["bytes"]
        self._xor = np.int64(self._frames["xor"])
      before = 0
      if self.has_frame_records:
        before = self._frame_bytes
        self.record_bytes += before
      self.content_mask = np.ones(self.record_bytes, bool)
      if version := (self._fields.fields or {}).get(transitions.VERSION):
        start = before + version[1]
        self.content_mask[start : start + version[0].itemsize] = False
    except (KeyError, TypeError) as error:
      raise ValueError(
        f"items.json does not describe the fields of an item ({error!r}), so "
        "its items can't be read: see table_spec.ItemSchema.describe"
      ) from error

  def read_records(self, records: np.ndarray) -> dict[str, np.ndarray]:
    """Returns the fields [M, ...] of records by name, but no stacked frames.

    Args:
      records: uint8 [M, record_bytes], the last ones of their items.
    """
    if self.has_frame_records:
      records = records[:, self._frame_bytes :]
    values = np.ascontiguousarray(records).view(self._fields)[:, 0]
    return {
      name: values[name]
      for name in self._fields.names or ()
      if name not in (frame_windows.FRAMES, frame_windows.NUMBERS)
    }

  def read_item(self, records: np.ndarray) -> list[dict[str, np.ndarray]]:
    """Returns the fields of one item's transitions, or of its sequence.

    Args:
      records: all records of the item, uint8 [W, record_bytes].
    """
    if self.has_frame_records:
      fields = _take(self.read_records(records[-1:]), 0)
      frames = self._undo_xor(records[:, : self._frame_bytes])
      newest = len(frames) - 1
      offset = int(fields.pop(transitions.FRAME_OFFSET))
      for name, last in (("o_tm1", newest - offset), ("o_t", newest)):
        fields[name] = frames[last + 1 - self._stack[0] : last + 1]
      return [fields]
    fields = self.read_records(records)
    found = [_take(fields, i) for i in range(len(records))]
    if self._frames is not None:  # a sequence, whose record has its frames
      (whole,) = records.view(self._fields)[:, 0]
      frames = self._undo_xor(whole[frame_windows.FRAMES])
      found[0]["observation"] = frames[whole[frame_windows.NUMBERS]]
    return found

  def _undo_xor(self, stored: np.ndarray) -> np.ndarray:
    """Returns M frames [M, ...] of their bytes, uint8 [M, frame_bytes]."""
    words = np.ascontiguousarray(stored).view(np.int64) ^ self._xor
    size = int(np.prod(self._stack[1:]))
    return words.view(np.uint8)[:, :size].reshape(-1, *self._stack[1:])


def _take(fields: Mapping[str, np.ndarray], i: int) -> dict[str, np.ndarray]:
  return {name: values[i] for name, values in fields.items()}
