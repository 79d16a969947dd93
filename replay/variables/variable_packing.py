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


# Name, data type, shape and offset in bytes of one array in a blob.
_Field = tuple[str, np.dtype, tuple[int, ...], int]


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
  arrays = {name: np.asarray(value) for name, value in variables.items()}
  fields, size = [], 0
  for name, value in arrays.items():
    if value.dtype.kind not in _KINDS:
      raise ValueError(
        f"variables[{name!r}] has dtype {value.dtype}, which a receiver"
        " cannot restore without a pickle; cast it to a boolean, integer,"
        " float or complex dtype."
      )
    offset = -(-size // ALIGNMENT) * ALIGNMENT
    fields.append((name, value.dtype.str, value.shape, offset))
    size = offset + value.nbytes
  blob, end = aligned_empty(size), 0
  for (_, dtype, shape, offset), value in zip(
    fields, arrays.values(), strict=True
  ):
    blob[end:offset] = 0
    np.ndarray(shape, dtype, blob, offset)[...] = value
    end = offset + value.nbytes
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
  try:
    size, fields = _parse_header(header.tobytes())
    if size != blob.size:
      raise ValueError(f"{size} bytes, and {blob.size} in the blob")
    return {
      name: np.ndarray(shape, dtype, blob, offset)
      for name, dtype, shape, offset in fields
    }
  except (TypeError, ValueError) as error:
    raise ValueError(
      f"header {header[:40].tobytes()!r} is no layout of this blob of variables"
      f" ({error}), so it cannot be read; pass the header and the blob of one"
      " version, of the same release."
    ) from error


# Cached, as all versions of a run's variables have the same header.
@functools.lru_cache(maxsize=8)
def _parse_header(header: bytes) -> tuple[int, list[_Field]]:
  """Returns the size of the blob in bytes, and the places of its arrays."""
  size, parsed = 0, []
  for name, type_name, shape, offset in json.loads(header):
    dtype = np.dtype(str(type_name))
    if dtype.kind not in _KINDS:  # an object's pointer could be any number
      raise ValueError(f"{name} has dtype {dtype}")
    parsed.append((str(name), dtype, tuple(shape), offset))
    size = max(size, offset + dtype.itemsize * math.prod(shape))
  return size, parsed
