"""Packing: converts named arrays to one record of bytes, and back.

Each column of a Reverb item has a cost: a chunk to compress and send at insert,
a tensor to decompress and assemble at sampling. One record of bytes costs a
third of five columns to write and half of them to sample:
benchmarks/results/libraries.md. The dataset unpacks the fields of a whole batch
at once.
"""

import math
from collections.abc import Mapping

import numpy as np
from acme import specs

# Dtype and shape of one field of a record, without the batch dimension.
Field = tuple[np.dtype, tuple[int, ...]]


class Packing:
  """Converter between batches of named arrays and records of bytes.

  Attributes:
    fields: dtype and shape of each field, by name, in the record's order.
    record_bytes: bytes of a record.
  """

  def __init__(self, fields: Mapping[str, Field], multiple_of: int = 1):
    """Computes the position of each field in a record.

    Fields follow one another in their order, without padding between them.

    Args:
      multiple_of: `record_bytes` is a multiple of this number; zeros fill the
        record after its last field.

    Raises:
      ValueError: a dtype is not a plain number.
    """
    for name, (dtype, _) in fields.items():
      if dtype.kind not in "biuf":
        raise ValueError(
          f"field {name!r} has dtype {dtype}, whose bytes are not fixed: "
          "pack numbers only"
        )
    self.fields = dict(fields)
    self._dtype = np.dtype(
      [(name, dtype, shape) for name, (dtype, shape) in fields.items()]
    )
    self._padding = -self._dtype.itemsize % multiple_of
    if self._padding:
      places = self._dtype.fields
      assert places is not None
      self._dtype = np.dtype(
        {
          "names": list(fields),
          "formats": [places[name][0] for name in fields],
          "offsets": [places[name][1] for name in fields],
          "itemsize": self._dtype.itemsize + self._padding,
        }
      )
    self.record_bytes = self._dtype.itemsize

  def pack(self, batch: Mapping[str, np.ndarray]) -> np.ndarray:
    """Packs a batch into records.

    Args:
      batch: an array [B, ...] for each field, by name.

    Returns:
      Records, uint8 [B, record_bytes].

    Raises:
      KeyError: a field is missing.
    """
    size = len(next(iter(batch.values())))
    records = np.empty(size, self._dtype)
    for name in self.fields:
      records[name] = batch[name]
    packed = records.view(np.uint8).reshape(size, self.record_bytes)
    if self._padding:
      packed[:, -self._padding :] = 0
    return packed

  def unpack(self, records: np.ndarray) -> dict[str, np.ndarray]:
    """Unpacks records, without a copy.

    Args:
      records: uint8 [B, record_bytes].

    Returns:
      Arrays [B, ...] by field name, as views of the records' memory.
    """
    values = records.view(self._dtype).reshape(len(records))
    return {name: values[name] for name in self.fields}


def size_bytes(spec: specs.Array) -> int:
  """Returns the number of bytes of an array that has this spec."""
  return math.prod(spec.shape) * spec.dtype.itemsize
