"""Episode file: the bytes of an HDF5 file with one group per episode.

h5py takes 0.2 ms for an episode's group and datasets, as long as ten steps of
CartPole. Here, the headers of one episode's objects are formatted once, and
NumPy copies them for all episodes: only sizes and addresses differ.

    /                 old-style group: B-tree, local heap, symbol table node
    /episode_N        new-style group: links and attributes are in its header
    /episode_N/NAME   contiguous dataset

Numbers in comments are sections of the HDF5 File Format Specification 3.0,
https://support.hdfgroup.org/documentation/hdf5/latest/_f_m_t3.html
"""

import math
import struct
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import h5py
import numpy as np

_UNDEFINED = b"\xff" * 8  # an address
# Types of messages in the header of an object: IV.A.2.
_DATASPACE, _LINK_INFO, _DATATYPE, _FILL_VALUE = 0x01, 0x02, 0x03, 0x05
_LINK, _LAYOUT, _GROUP_INFO, _ATTRIBUTE = 0x06, 0x08, 0x0A, 0x0C
_SYMBOL_TABLE = 0x11
_TREE_K = 16  # half of the children for which a B-tree's node has space


class Column(NamedTuple):
  """Values of one dataset per episode.

  Attributes:
    values: Those of all episodes, concatenated.  # [N, ...]
    lengths: Number of values of each of the E episodes, int64 [E].
  """

  values: np.ndarray
  lengths: np.ndarray


def format_file(
  columns: Mapping[str, Column], infos: Mapping[str, Column]
) -> list[bytes | memoryview]:
  """Returns the content of a file of episodes, in pieces.

  Args:
    columns: Datasets of each group `episode_N`, by name. The lengths of
      'rewards' are the attributes `total_steps`.
    infos: Datasets of each group `episode_N/infos`, by name.
  """
  lengths = columns["rewards"].lengths
  episode = _Objects()
  links = {name: episode.add_dataset(name, x) for name, x in columns.items()}
  if infos:
    inner = {name: episode.add_dataset(name, x) for name, x in infos.items()}
    links["infos"] = episode.add_group(inner)
  group = episode.add_group(links, ("id", "total_steps"))
  first, size = 96, len(episode.content)  # after the superblock
  end = first + len(lengths) * size
  numbers = {"id": np.arange(len(lengths)), "total_steps": lengths}
  data = []
  for name, (values, rows) in (*columns.items(), *infos.items()):
    sizes = rows * values.itemsize * math.prod(values.shape[1:])
    numbers[f"{name} rows"], numbers[f"{name} size"] = rows, sizes
    numbers[f"{name} address"] = end + np.cumsum(sizes) - sizes
    data.append(np.ascontiguousarray(values).data.cast("B"))
    end += values.nbytes
  addresses = first + group + size * np.arange(len(lengths))
  superblock, root = _format_root(addresses, end)
  objects = episode.copy(first, numbers).data.cast("B")
  return [superblock, objects, *data, root]


class _Objects:
  """Headers of the objects of one episode.

  Attributes:
    content: their bytes, with 8 zeros in place of each number that differs.
  """

  def __init__(self):
    self.content = bytearray()
    # Offset of each such number, with its name, or, if it is the address of
    # another header, with that header's offset.
    self._places: list[tuple[int, str | int]] = []

  def add_dataset(self, name: str, column: Column) -> int:
    """Adds a dataset; returns the offset of its header."""
    shape = column.values.shape[1:]
    kind = h5py.h5t.py_create(column.values.dtype, logical=True)
    return self._add_header(
      (
        _DATASPACE,
        struct.pack("<BB6x", 1, 1 + len(shape)),
        f"{name} rows",
        struct.pack(f"<{len(shape)}Q", *shape),
      ),
      (_DATATYPE, _encode(kind)),
      (_FILL_VALUE, bytes((2, 2, 2, 0))),  # none
      (_LAYOUT, bytes((3, 1)), f"{name} address", f"{name} size"),
    )

  def add_group(
    self, links: Mapping[str, int], attributes: Sequence[str] = ()
  ) -> int:
    """Adds a group; returns the offset of its header."""
    integer = _encode(h5py.h5t.STD_I64LE)
    scalar = struct.pack("<B7x", 1)
    return self._add_header(
      (_LINK_INFO, bytes(2) + _UNDEFINED + _UNDEFINED),
      (_GROUP_INFO, bytes(2)),
      *(
        (_LINK, bytes((1, 0, len(name))) + name.encode(), offset)
        for name, offset in links.items()
      ),
      *(
        (
          _ATTRIBUTE,
          struct.pack("<BxHHH", 1, len(name) + 1, len(integer), len(scalar)),
          _pad(name.encode() + b"\0") + _pad(integer) + scalar,
          name,
        )
        for name in attributes
      ),
    )

  def copy(self, address: int, numbers: Mapping[str, np.ndarray]) -> np.ndarray:
    """Returns the headers of all E episodes, uint8 [E, bytes]."""
    count = len(numbers["id"])
    copies = np.tile(np.frombuffer(self.content, np.uint8), (count, 1))
    starts = address + len(self.content) * np.arange(count)
    for place, name in self._places:
      values = starts + name if isinstance(name, int) else numbers[name]
      copies[:, place : place + 8] = (
        values.astype("<i8").view(np.uint8).reshape(-1, 8)
      )
    return copies

  def _add_header(self, *messages: tuple) -> int:
    """Adds a header: IV.A.1.a. A message is its type and its parts."""
    start = len(self.content)
    self.content += bytes(16)
    for kind, *parts in messages:
      begin = len(self.content)
      self.content += bytes(8)
      for part in parts:
        if not isinstance(part, bytes):
          self._places.append((len(self.content), part))
          part = bytes(8)
        self.content += part
      self.content += bytes(-len(self.content) % 8)
      size = len(self.content) - begin - 8
      struct.pack_into("<HH", self.content, begin, kind, size)
    size = len(self.content) - start - 16
    struct.pack_into("<BxHII", self.content, start, 1, len(messages), 1, size)
    return start


def _format_root(addresses: np.ndarray, start: int) -> tuple[bytes, bytes]:
  """Returns the superblock, and the root of up to 65,535 episodes' headers."""
  count = len(addresses)
  names = [_pad(b"episode_%d\0" % i) for i in range(count)]
  heap = bytes(8) + b"".join(names)  # begins with the root's own, empty name
  offsets = np.cumsum([8, *map(len, names)])[:-1]
  # One symbol table node has all episodes, sorted by name.
  order = sorted(range(count), key=names.__getitem__)
  node_k = (count + 1) // 2
  symbols = np.zeros((2 * node_k, 5), "<i8")
  symbols[:count, 0], symbols[:count, 1] = offsets[order], addresses[order]
  tree = start + 40
  local_heap = tree + 32 + 32 * _TREE_K
  node = local_heap + 32 + len(heap)
  end = node + 8 + symbols.nbytes
  superblock = struct.pack(  # II.A, version 0
    "<8s5x3B2HIQ8sQ8s2QI4x2Q",
    b"\x89HDF\r\n\x1a\n",
    *(8, 8, 0, node_k, _TREE_K, 0, 0, _UNDEFINED, end, _UNDEFINED),
    *(0, start, 1, tree, local_heap),
  )
  keys = struct.pack("<3Q", 0, node, offsets[order[-1]])
  root = (
    struct.pack("<BxHII4x", 1, 1, 1, 24),
    struct.pack("<HH4x2Q", _SYMBOL_TABLE, 16, tree, local_heap),
    struct.pack("<4s2xH", b"TREE", 1) + _UNDEFINED + _UNDEFINED,  # III.A.1
    keys.ljust(8 + 32 * _TREE_K, b"\0"),
    # III.D; its free list is empty.
    struct.pack("<4s4x3Q", b"HEAP", len(heap), 1, local_heap + 32) + heap,
    struct.pack("<4sBxH", b"SNOD", 1, count) + symbols.tobytes(),  # III.B
  )
  return superblock, b"".join(root)


def _encode(kind: h5py.h5t.TypeID) -> bytes:
  """Returns the message of a data type, which H5Tencode puts after 2 bytes."""
  return kind.encode()[2:]


def _pad(content: bytes) -> bytes:
  """Returns bytes with zeros up to a multiple of 8."""
  return content + bytes(-len(content) % 8)
