"""Variable packing: named arrays as one header and one blob of bytes.

The header is JSON and the blob is raw memory, so that whoever receives them
never runs code that a sender chose, as a pickle would. Works without Reverb and
TensorFlow: a worker behind a proxy needs neither to read its variables.

```python
header, blob = pack({'mlp/w': w, 'mlp/b': b})
variables = unpack(header, blob)  # Views of the blob, nothing is copied.
```
"""

import functools
import json
import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

# Bytes; a cache line, and what the widest vector loads want.
ALIGNMENT = 64

# Booleans, integers, floats, complex numbers: what `np.dtype(text)` restores
# alone. An extension type such as bfloat16 would come back as raw bytes.
_KINDS = "biufc"


class Snapshot(NamedTuple):
  """One whole version of the variables.

  Attributes:
    version: the publisher's count, from 1.
    published_at_s: when it was published, unix seconds.
    variables: arrays by name.
  """

  version: int
  published_at_s: float
  variables: dict[str, np.ndarray]


class Field(NamedTuple):
  """Where one array lies in the blob; `offset` in bytes."""

  name: str
  dtype: np.dtype
  shape: tuple[int, ...]
  offset: int

  @property
  def size(self) -> int:
    """The bytes of the array, padding excluded."""
    return self.dtype.itemsize * math.prod(self.shape)


class Layout(NamedTuple):
  """Names, dtypes, shapes and offsets of the arrays of one blob."""

  fields: tuple[Field, ...]

  @property
  def size(self) -> int:
    """The bytes of the blob."""
    return max((field.offset + field.size for field in self.fields), default=0)

  @classmethod
  def of(cls, variables: Mapping[str, np.ndarray]) -> "Layout":
    """Lays the arrays out in the mapping's order.

    Raises:
      ValueError: an array's dtype has no portable name.
    """
    fields = []
    end = 0
    for name, value in variables.items():
      value = np.asarray(value)
      if value.dtype.kind not in _KINDS:
        raise ValueError(
          f"variables[{name!r}] has dtype {value.dtype}, which a receiver"
          " could not restore without a pickle; cast it to a boolean, integer,"
          " float or complex dtype."
        )
      offset = -(-end // ALIGNMENT) * ALIGNMENT
      fields.append(Field(name, value.dtype, value.shape, offset))
      end = offset + value.nbytes
    return cls(tuple(fields))

  def to_bytes(self) -> bytes:
    """The layout as compact JSON."""
    rows = [[f.name, f.dtype.str, f.shape, f.offset] for f in self.fields]
    return json.dumps(rows, separators=(",", ":")).encode()

  @classmethod
  def from_bytes(cls, header: bytes) -> "Layout":
    """Restores what `to_bytes` wrote.

    Raises:
      ValueError: the bytes are not a layout.
    """
    return _parse(header)


# A worker sees the same header with each version of its variables.
@functools.lru_cache(maxsize=8)
def _parse(header: bytes) -> Layout:
  try:
    fields = tuple(
      Field(
        str(name), np.dtype(str(dtype)), tuple(map(int, shape)), int(offset)
      )
      for name, dtype, shape, offset in json.loads(header)
    )
  except (TypeError, ValueError) as error:
    raise ValueError(
      f"header {header[:40]!r} is not a layout of variables ({error}), so the"
      " blob cannot be read; sender and receiver must run the same release."
    ) from error
  for field in fields:
    if field.dtype.kind not in _KINDS or min((field.offset, *field.shape)) < 0:
      raise ValueError(
        f"header has the field {field}, which no layout has, so the blob"
        " cannot be read; sender and receiver must run the same release."
      )
  return Layout(fields)


def aligned_empty(size: int) -> np.ndarray:
  """Uninitialised uint8 [size] whose first byte is aligned to `ALIGNMENT`."""
  memory = np.empty(size + ALIGNMENT, np.uint8)
  start = -memory.ctypes.data % ALIGNMENT
  return memory[start : start + size]


def pack(variables: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
  """Copies the arrays into one blob.

  Args:
    variables: arrays by name, of any shape, contiguous or not.

  Returns:
    header uint8 [H] and blob uint8 [B], the blob aligned to `ALIGNMENT`, its
    padding zero so that equal variables are equal bytes.

  Raises:
    ValueError: an array's dtype has no portable name.
  """
  layout = Layout.of(variables)
  blob = aligned_empty(layout.size)
  end = 0
  for field, value in zip(layout.fields, variables.values(), strict=True):
    blob[end : field.offset] = 0
    end = field.offset + field.size
    _view(blob, field)[...] = value
  return np.frombuffer(layout.to_bytes(), np.uint8), blob


def unpack(header: np.ndarray, blob: np.ndarray) -> dict[str, np.ndarray]:
  """The arrays as views of the blob; aligned where the blob is.

  Args:
    header: uint8 [H] from `pack`.
    blob: uint8 [B] from `pack`, contiguous.

  Raises:
    ValueError: the header is no layout, or one of another blob.
  """
  layout = Layout.from_bytes(header.tobytes())
  if layout.size != blob.size:
    raise ValueError(
      f"blob has {blob.size} bytes where its header tells of {layout.size}, so"
      " it cannot be read; pass the header and the blob of one version."
    )
  return {field.name: _view(blob, field) for field in layout.fields}


def _view(blob: np.ndarray, field: Field) -> np.ndarray:
  memory = blob[field.offset : field.offset + field.size]
  return memory.view(field.dtype).reshape(field.shape)
