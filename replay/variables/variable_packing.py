"""Variable packing: named arrays as one header and one blob of bytes.

The header is JSON and the blob is raw memory. So a receiver never runs code of
the sender, as it would with a pickle. The module imports neither Reverb nor
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

# Bytes: a cache line, and the alignment of the widest vector loads.
ALIGNMENT = 64

# Booleans, integers, floats, complex numbers: `np.dtype(text)` restores these
# without other packages. An extension type such as bfloat16 would be restored
# as raw bytes.
_KINDS = "biufc"


class VersionedVariables(NamedTuple):
  """One version of the variables.

  Attributes:
    version: number of the version, from 1.
    published_at_s: time of its publication, unix seconds.
    variables: arrays by name.
  """

  version: int
  published_at_s: float
  variables: dict[str, np.ndarray]


class Field(NamedTuple):
  """Name, dtype, shape and offset in bytes of one array in a blob."""

  name: str
  dtype: np.dtype
  shape: tuple[int, ...]
  offset: int

  @property
  def size(self) -> int:
    """Bytes of the array, padding excluded."""
    return self.dtype.itemsize * math.prod(self.shape)


class BlobLayout(NamedTuple):
  """Positions of all arrays in a blob, in the order of their offsets."""

  fields: tuple[Field, ...]

  @property
  def size(self) -> int:
    """Bytes of the blob."""
    return max((field.offset + field.size for field in self.fields), default=0)

  @classmethod
  def from_arrays(cls, variables: Mapping[str, np.ndarray]) -> "BlobLayout":
    """Returns the layout of arrays, in the mapping's order.

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
          " cannot restore without a pickle; cast it to a boolean, integer,"
          " float or complex dtype."
        )
      offset = -(-end // ALIGNMENT) * ALIGNMENT
      fields.append(Field(name, value.dtype, value.shape, offset))
      end = offset + value.nbytes
    return cls(tuple(fields))

  def to_bytes(self) -> bytes:
    """Returns the layout as compact JSON."""
    fields = [[f.name, f.dtype.str, f.shape, f.offset] for f in self.fields]
    return json.dumps(fields, separators=(",", ":")).encode()

  @classmethod
  def from_bytes(cls, header: bytes) -> "BlobLayout":
    """Returns the layout that `to_bytes` has written.

    Raises:
      ValueError: the bytes are not a layout.
    """
    return _parse(header)


# A worker sees the same header with each version of its variables.
@functools.lru_cache(maxsize=8)
def _parse(header: bytes) -> BlobLayout:
  """Parses and checks a header; see `BlobLayout.from_bytes`."""
  try:
    fields = tuple(
      Field(
        str(name), np.dtype(str(dtype)), tuple(map(int, shape)), int(offset)
      )
      for name, dtype, shape, offset in json.loads(header)
    )
  except (TypeError, ValueError) as error:
    raise ValueError(
      f"header {header[:40]!r} is no layout of variables ({error}), so the blob"
      " cannot be read; run the same release on sender and receiver."
    ) from error
  for field in fields:
    if field.dtype.kind not in _KINDS or min((field.offset, *field.shape)) < 0:
      raise ValueError(
        f"header has the invalid field {field}, so the blob cannot be"
        " read; run the same release on sender and receiver."
      )
  return BlobLayout(fields)


def aligned_empty(size: int) -> np.ndarray:
  """Returns uninitialised uint8 [size], aligned to `ALIGNMENT`."""
  memory = np.empty(size + ALIGNMENT, np.uint8)
  start = -memory.ctypes.data % ALIGNMENT
  return memory[start : start + size]


def pack(variables: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
  """Copies the arrays into one blob.

  Args:
    variables: arrays by name, of any shape, contiguous or not.

  Returns:
    header uint8 [H] of H bytes, and blob uint8 [B] of B bytes, aligned to
    `ALIGNMENT`, its padding zero so that equal variables are equal bytes.

  Raises:
    ValueError: an array's dtype has no portable name.
  """
  layout = BlobLayout.from_arrays(variables)
  blob = aligned_empty(layout.size)
  end = 0
  for field, value in zip(layout.fields, variables.values(), strict=True):
    blob[end : field.offset] = 0
    end = field.offset + field.size
    _view(blob, field)[...] = value
  return np.frombuffer(layout.to_bytes(), np.uint8), blob


def unpack(header: np.ndarray, blob: np.ndarray) -> dict[str, np.ndarray]:
  """Returns the arrays as views of the blob; aligned if the blob is.

  Args:
    header: uint8 [H], of H bytes, from `pack`.
    blob: uint8 [B] from `pack`, contiguous.

  Raises:
    ValueError: the header is no layout, or belongs to another blob.
  """
  layout = BlobLayout.from_bytes(header.tobytes())
  if layout.size != blob.size:
    raise ValueError(
      f"blob has {blob.size} bytes but its header describes {layout.size}, so"
      " it cannot be read; pass the header and the blob of one version."
    )
  return {field.name: _view(blob, field) for field in layout.fields}


def _view(blob: np.ndarray, field: Field) -> np.ndarray:
  memory = blob[field.offset : field.offset + field.size]
  return memory.view(field.dtype).reshape(field.shape)
