"""Variable packing: converts named arrays to a header and a blob of bytes.

The header is JSON and the blob is raw memory. So a receiver never runs code of
the sender, as it would with a pickle. The module imports neither Reverb nor
TensorFlow, so that a worker behind a proxy can read variables without them.
"""

import functools
import json
import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

# Alignment in bytes of each array in a blob: a cache line, and the widest
# vector loads.
ALIGNMENT = 64

# Kinds of dtypes that can be packed: booleans, integers, floats and complex
# numbers. `np.dtype(text)` restores their dtypes without other packages. An
# extension type such as bfloat16 would be restored as raw bytes.
_KINDS = "biufc"


class VersionedVariables(NamedTuple):
  """Published variables with their version number.

  Attributes:
    version: number of the version, from 1.
    published_at_s: unix time in seconds at which the trainer published them.
    variables: arrays by name.
  """

  version: int
  published_at_s: float
  variables: dict[str, np.ndarray]


class Field(NamedTuple):
  """Position of one named array in a blob."""

  name: str
  dtype: np.dtype
  shape: tuple[int, ...]
  offset: int  # bytes from the start of the blob

  @property
  def size(self) -> int:
    """Size of the array in bytes, padding excluded."""
    return self.dtype.itemsize * math.prod(self.shape)


def _make_layout(variables: Mapping[str, np.ndarray]) -> tuple[Field, ...]:
  """Returns the places of arrays in a blob, in the order of the mapping."""
  fields, end = [], 0
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
  return tuple(fields)


def _count_bytes(layout: tuple[Field, ...]) -> int:
  """Returns the size of a blob in bytes."""
  return max((field.offset + field.size for field in layout), default=0)


# Cached, as all versions of a run's variables have the same header.
@functools.lru_cache(maxsize=8)
def _parse_header(header: bytes) -> tuple[Field, ...]:
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
  return fields


def aligned_empty(size: int) -> np.ndarray:
  """Returns an uninitialised array, uint8 [size], aligned to `ALIGNMENT`."""
  memory = np.empty(size + ALIGNMENT, np.uint8)
  start = -memory.ctypes.data % ALIGNMENT
  return memory[start : start + size]


def pack(variables: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
  """Copies arrays into one blob, with a header that describes them.

  Equal variables give equal bytes, as padding is filled with zeros.

  Args:
    variables: arrays by name, of any shape, contiguous or not.

  Returns:
    header: uint8 [H] of H bytes.
    blob: uint8 [B] of B bytes, aligned to `ALIGNMENT`.

  Raises:
    ValueError: an array's dtype is not a plain number.
  """
  layout = _make_layout(variables)
  blob = aligned_empty(_count_bytes(layout))
  end = 0
  for field, value in zip(layout, variables.values(), strict=True):
    blob[end : field.offset] = 0
    end = field.offset + field.size
    _view(blob, field)[...] = value
  fields = [[f.name, f.dtype.str, f.shape, f.offset] for f in layout]
  header = json.dumps(fields, separators=(",", ":")).encode()
  return np.frombuffer(header, np.uint8), blob


def unpack(header: np.ndarray, blob: np.ndarray) -> dict[str, np.ndarray]:
  """Returns the arrays of a blob by name, as views of the blob's memory.

  Args:
    header: header from `pack`, uint8 [H] of H bytes.
    blob: blob from `pack`, contiguous uint8 [B] of B bytes; the arrays are
      aligned if the blob is aligned to `ALIGNMENT`.

  Raises:
    ValueError: the header is invalid, or belongs to another blob.
  """
  layout = _parse_header(header.tobytes())
  if _count_bytes(layout) != blob.size:
    raise ValueError(
      f"blob has {blob.size} bytes but its header describes "
      f"{_count_bytes(layout)}, so it cannot be read; pass the header and the "
      "blob of one version."
    )
  return {field.name: _view(blob, field) for field in layout}


def _view(blob: np.ndarray, field: Field) -> np.ndarray:
  memory = blob[field.offset : field.offset + field.size]
  return memory.view(field.dtype).reshape(field.shape)
