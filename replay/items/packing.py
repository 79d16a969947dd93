"""A fixed layout of named arrays as one row of bytes.

Reverb pays for each column of an item: a chunk to compress and send on
insert, a tensor to decompress and assemble on sampling. A row of bytes costs
a third of five columns to write and half of them to sample (measured in
docs/libraries.md); the dataset takes the fields out of a whole batch at once.
"""

from collections.abc import Mapping

import numpy as np

Field = tuple[np.dtype, tuple[int, ...]]  # dtype and shape, without [B]


class Packing:
  """Turns batches of named arrays into rows of bytes and back.

  ```python
  packing = Packing({'x': (np.dtype(np.float32), (4,)), ...})
  rows = packing.pack({'x': np.zeros([16, 4], np.float32), ...})  # [16, N]
  batch = packing.unpack(rows)  # {'x': [16, 4] float32, ...}
  ```
  """

  def __init__(self, fields: Mapping[str, Field]):
    """Lays the fields out in their order, without padding.

    Args:
      fields: dtype and shape of each field, without the batch dimension.

    Raises:
      ValueError: a dtype is not a plain number.
    """
    for name, (dtype, _) in fields.items():
      if dtype.kind not in "biuf":
        raise ValueError(
          f"field {name!r} has dtype {dtype}, which has no fixed bytes: "
          "pack numbers only"
        )
    self.fields = dict(fields)
    self._dtype = np.dtype(
      [(name, dtype, shape) for name, (dtype, shape) in fields.items()]
    )
    self.row_bytes = self._dtype.itemsize

  def pack(self, batch: Mapping[str, np.ndarray]) -> np.ndarray:
    """Copies a batch into rows.

    Args:
      batch: an array [B, ...] for each field.

    Returns:
      uint8 [B, row_bytes].

    Raises:
      KeyError: a field is missing.
    """
    size = len(next(iter(batch.values())))
    rows = np.empty(size, self._dtype)
    for name in self.fields:
      rows[name] = batch[name]
    return rows.view(np.uint8).reshape(size, self.row_bytes)

  def unpack(self, rows: np.ndarray) -> dict[str, np.ndarray]:
    """The fields of uint8 [B, row_bytes] as NumPy arrays that share memory."""
    records = rows.view(self._dtype).reshape(len(rows))
    return {name: records[name] for name in self.fields}
