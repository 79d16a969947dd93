"""Shared variables: the newest version, in memory shared by a machine's nodes.

The trainer writes each version once, or on other machines the proxy. Every
worker maps the same memory and copies a version when it has changed. Neither
side ever blocks: a reader does not wait for a writer that died halfway, nor the
writer for a slow reader. The module imports neither Reverb nor TensorFlow.

The file, meant for a tmpfs such as /dev/shm, holds one page and two slots:

  magic | capacity | count | fields of slot 0 | fields of slot 1 | ... | data

`count` is the number of versions written. Version number `count` is complete in
slot `count % 2`, and the next version goes into the other slot. So a writer
that dies halfway damages only the slot that no reader reads. Each slot has a
sequence number (a seqlock), which is odd while the slot is being written. By
this number, a reader detects that its slot was overwritten during the copy.

Memory order: x86-64, the only architecture of Reverb's wheels, keeps the order
of stores among stores and of loads among loads. Aligned 8-byte words are stored
and loaded whole. Each Python statement below is a separate call, which no
compiler reorders. A checksum over the slot also detects half-written versions.
It is computed only for new versions, and costs about as much as the copy.
"""

import contextlib
import mmap
import os
import zlib

import numpy as np

from slipway.replay.variables import variable_packing

# First word of the file, which identifies its format and version.
_MAGIC = int.from_bytes(b"slipway1", "little")
# Bytes of the file before the data of slot 0.
_PAGE = 4096

# Positions in the page of the file's fields, in words of 8 bytes. `count` has a
# separate cache line, because readers poll it.
_MAGIC_WORD, _CAPACITY_WORD, _COUNT_WORD = 0, 1, 8
# Position in the page of the first field of slot 0 and slot 1, in words.
_SLOT_WORDS = (16, 32)
# Positions of a slot's fields, in words after the slot's first field.
_SEQUENCE, _VERSION, _TIME, _HEADER_SIZE, _BLOB_SIZE, _CHECKSUM = range(6)

# Failed copies in one `SharedVariables.poll` after which it returns None. A
# copy fails if the writer writes two versions meanwhile. The next poll tries
# again.
_ATTEMPTS = 8


def _checksum(header, blob) -> int:
  """Returns the CRC-32 of a version's header and blob."""
  return zlib.crc32(blob, zlib.crc32(header))


class _MappedFile:
  """Memory-mapped file of shared variables.

  Attributes:
    words: the page's fields as integers of 8 bytes, by position in words.
    times: the same page as floats of 8 bytes, for the times of publications.
    slots: data of slot 0 and slot 1, uint8 each.
    identity: device and inode, by which readers notice that it was replaced.
  """

  def __init__(self, descriptor: int, size: int, write: bool):
    access = mmap.ACCESS_WRITE if write else mmap.ACCESS_READ
    self._mmap = mmap.mmap(descriptor, size, access=access)
    # Native 8-byte words: one load or store each; `struct` with a fixed byte
    # order would use single bytes.
    memory = np.frombuffer(self._mmap, np.uint8)
    self.words = memoryview(self._mmap)[:_PAGE].cast("Q")
    self.times = memoryview(self._mmap)[:_PAGE].cast("d")
    half = (size - _PAGE) // 2
    self.slots = (memory[_PAGE : _PAGE + half], memory[_PAGE + half :])
    status = os.fstat(descriptor)
    self.identity = (status.st_dev, status.st_ino)


class SharedVariablesWriter:
  """Writer of a file of shared variables, of which there may be only one.

  The first `write` creates the file and replaces the file of an earlier writer.
  So each run needs its own path.
  """

  def __init__(self, path: str):
    """Stores the path; creates no file."""
    self._path = path
    self._file: _MappedFile | None = None

  def write(
    self,
    version: int,
    published_at_s: float,
    header: np.ndarray,
    blob: np.ndarray,
  ) -> None:
    """Writes a new version for all readers, by one copy and one checksum.

    Args:
      published_at_s: unix time in seconds at which it was published.
      header: header from `variable_packing.pack`, uint8 [H] of H bytes.
      blob: blob from `variable_packing.pack`, uint8 [B] of B bytes.

    Raises:
      OSError: the file system is full; readers keep the last version.
    """
    file = self._file
    needed = header.size + blob.size
    if file is None or file.slots[0].size < needed:
      # A quarter more than needed, so that a header that grows by a digit does
      # not need a new file.
      capacity = needed + needed // 4
      capacity = -(-capacity // _PAGE) * _PAGE
      with self._new_file(capacity) as file:
        _write_version(file, version, published_at_s, header, blob)
      self._file = file
    else:
      _write_version(file, version, published_at_s, header, blob)

  @contextlib.contextmanager
  def _new_file(self, capacity: int):
    """Yields a new file to be filled, and renames it to the path at exit."""
    draft = f"{self._path}.draft"
    with contextlib.suppress(FileNotFoundError):
      os.unlink(draft)  # Left by a writer that was killed here.
    flags = os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC
    descriptor = os.open(draft, flags, 0o600)
    try:
      size = _PAGE + 2 * capacity
      # Reserves the memory now: on a full tmpfs a write through the mapping
      # would otherwise kill the process with SIGBUS.
      try:
        os.posix_fallocate(descriptor, 0, size)
      except OSError as error:
        raise OSError(
          f"{self._path!r} needs {size:,} bytes that its disk does not have "
          f"({error.strerror}), so workers get no variables: free that space"
        ) from error
      file = _MappedFile(descriptor, size, write=True)
      file.words[_CAPACITY_WORD] = capacity
      file.words[_MAGIC_WORD] = _MAGIC
      yield file
      os.rename(draft, self._path)
    except BaseException:
      os.unlink(draft)
      raise
    finally:
      os.close(descriptor)

  def close(self) -> None:
    """Deletes the file, unless another writer has replaced it meanwhile."""
    if self._file is None:
      return
    with contextlib.suppress(FileNotFoundError):
      status = os.stat(self._path)
      if (status.st_dev, status.st_ino) == self._file.identity:
        os.unlink(self._path)
    self._file = None


def _write_version(
  file: _MappedFile, version, published_at_s, header, blob
) -> None:
  """Writes a version to the older slot; see `SharedVariablesWriter.write`."""
  words = file.words
  count = words[_COUNT_WORD] + 1
  slot = _SLOT_WORDS[count % 2]
  words[slot + _SEQUENCE] = 2 * count - 1  # Odd: do not read.
  words[slot + _VERSION] = version
  file.times[slot + _TIME] = published_at_s
  words[slot + _HEADER_SIZE] = header.size
  words[slot + _BLOB_SIZE] = blob.size
  # The blob first: where the slot starts, its arrays are aligned.
  data = file.slots[count % 2]
  data[: blob.size] = blob
  data[blob.size : blob.size + header.size] = header
  words[slot + _CHECKSUM] = _checksum(header, blob)
  words[slot + _SEQUENCE] = 2 * count
  words[_COUNT_WORD] = count


class SharedVariables:
  """Reader of a file of shared variables; each worker process has its own."""

  def __init__(self, path: str):
    self._path = path
    self._file: _MappedFile | None = None
    self._count = 0  # `count` of the last version from this file
    self._identity = (0, 0.0)  # its version and time of publication

  def poll(self) -> variable_packing.VersionedVariables | None:
    """Returns the newest version if it has changed since the last call.

    Never blocks. Without a new version, a poll costs one read of shared memory
    and one `os.stat`, to detect that the file was replaced, by a restarted
    proxy or for larger variables.

    Returns:
      A copy of the version, aligned to 64 bytes. None: no new version, no file
      yet, or the writer has overwritten the version during each attempt.

    Raises:
      ValueError: the file at the path was not written by a
        `SharedVariablesWriter` of this user and release.
    """
    # Always, since a file that was replaced may have a version that is new to
    # this reader, but not the newest.
    file = self._map_current_file()
    for _ in range(_ATTEMPTS):
      if file is None or file.words[_COUNT_WORD] == self._count:
        return None
      snapshot = self._copy_newest(file)
      if snapshot is not None:
        identity = snapshot[:2]
        # The file of a restarted proxy begins with a version that is known.
        if identity == self._identity:
          return None
        self._identity = identity
        return snapshot
    return None

  def _map_current_file(self) -> _MappedFile | None:
    """Returns the file at the path, mapped again if it was replaced."""
    try:
      status = os.stat(self._path)
    except FileNotFoundError:
      return self._file
    identity = (status.st_dev, status.st_ino)
    if self._file is not None and self._file.identity == identity:
      return self._file
    try:
      descriptor = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
      return self._file
    try:
      status = os.fstat(descriptor)
      file = None
      if status.st_uid == os.geteuid() and status.st_size > _PAGE:
        file = _MappedFile(descriptor, status.st_size, write=False)
    finally:
      os.close(descriptor)
    if (
      file is None
      or file.words[_MAGIC_WORD] != _MAGIC
      or file.words[_CAPACITY_WORD] != file.slots[0].size
    ):
      raise ValueError(
        f"variables path {self._path!r} is a file that no writer of this user"
        " and release made, so it is not read; remove it or give another path."
      )
    self._file = file
    self._count = 0
    return file

  def _copy_newest(
    self, file: _MappedFile
  ) -> variable_packing.VersionedVariables | None:
    """Copies the newest version; None: it was overwritten during the copy."""
    words = file.words
    count = words[_COUNT_WORD]
    slot = _SLOT_WORDS[count % 2]
    sequence = words[slot + _SEQUENCE]
    if sequence != 2 * count:
      return None
    version = words[slot + _VERSION]
    published_at_s = file.times[slot + _TIME]
    size = words[slot + _BLOB_SIZE]
    end = size + words[slot + _HEADER_SIZE]
    checksum = words[slot + _CHECKSUM]
    data = file.slots[count % 2]
    if end > data.size:
      return None
    blob = variable_packing.aligned_empty(size)
    blob[:] = data[:size]
    header = data[size:end].copy()
    if words[slot + _SEQUENCE] != sequence:
      return None
    if _checksum(header, blob) != checksum:
      return None
    variables = variable_packing.unpack(header, blob)
    self._count = count
    return variable_packing.VersionedVariables(
      version, published_at_s, variables
    )
