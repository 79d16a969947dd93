"""Shared variables: the newest version, once for all processes of a machine.

The proxy writes, every worker maps the same memory and copies a version when it
changed. Nobody waits for anybody: not a reader for a writer that died halfway,
not the writer for a slow reader. Works without Reverb and TensorFlow.

The file, meant for a tmpfs such as /dev/shm, holds one page and two slots:

  magic | capacity | count | slot 0's numbers | slot 1's numbers | ... | data

`count` is the number of versions written. Version number `count` lies whole in
slot `count % 2`, and the next one goes into the other slot, so a writer that
dies halfway spoils only what no reader was pointed to. A reader that is
overtaken twice while it copies sees it in the slot's own sequence number
(a seqlock), which is odd while the slot is written to.

Ordering: x86-64, the only machine that Reverb's wheels are built for, keeps
stores in order with stores and loads with loads; aligned 8-byte words are
stored and loaded whole, and each of Python's statements below is its own call,
which no compiler reorders. The checksum over a slot (about the cost of the copy
itself, and only when a version changed) makes "never half a version"
independent of that argument.
"""

import contextlib
import mmap
import os
import zlib

import numpy as np

from slipway.replay.variables import variable_packing

_MAGIC = int.from_bytes(b"slipway1", "little")
_PAGE = 4096  # bytes before the data

# Words of 8 bytes in the page. Each slot's numbers have a cache line or more of
# their own: readers poll `count` only.
_MAGIC_WORD, _CAPACITY_WORD, _COUNT_WORD = 0, 1, 8
_SLOT_WORDS = (16, 32)
_SEQUENCE, _VERSION, _TIME, _HEADER_SIZE, _BLOB_SIZE, _CHECKSUM = range(6)

# A reader that is overtaken this often in a row reports nothing new and tries
# again at its next poll, rather than spin beside a writer at full speed.
_ATTEMPTS = 8


def _checksum(header, blob) -> int:
  return zlib.crc32(blob, zlib.crc32(header))


class _File:
  """One mapped file: the words of its page and its two slots."""

  def __init__(self, descriptor: int, size: int, write: bool):
    access = mmap.ACCESS_WRITE if write else mmap.ACCESS_READ
    self._mmap = mmap.mmap(descriptor, size, access=access)
    # Native 8-byte words: one load or store each, where `struct` with a fixed
    # byte order would go byte by byte.
    memory = np.frombuffer(self._mmap, np.uint8)
    self.words = memoryview(self._mmap)[:_PAGE].cast("Q")
    self.times = memoryview(self._mmap)[:_PAGE].cast("d")
    half = (size - _PAGE) // 2
    self.slots = (memory[_PAGE : _PAGE + half], memory[_PAGE + half :])
    status = os.fstat(descriptor)
    self.identity = (status.st_dev, status.st_ino)


class SharedVariablesWriter:
  """The one writer of a file of shared variables.

  The file appears with the first version and not before: a restarted writer
  replaces what its predecessor left only when it has something newer. A path
  must therefore belong to one run.
  """

  def __init__(self, path: str):
    """Checks the path.

    Args:
      path: of the file, in a directory on a tmpfs.

    Raises:
      ValueError: the directory cannot be written to.
    """
    directory = os.path.dirname(os.path.abspath(path))
    if not os.access(directory, os.W_OK | os.X_OK):
      raise ValueError(
        f"variables path {path!r}: {directory} is no directory that this user"
        " may write to, so no worker would get variables; name one on a tmpfs,"
        " such as /dev/shm."
      )
    self._path = path
    self._file: _File | None = None

  def write(
    self,
    version: int,
    published_at_s: float,
    header: np.ndarray,
    blob: np.ndarray,
  ) -> None:
    """Makes a version the newest; costs one copy and one checksum of it.

    Args:
      version: the publisher's count.
      published_at_s: unix seconds.
      header: uint8 [H] from `variable_packing.pack`.
      blob: uint8 [B] from `variable_packing.pack`.

    Raises:
      OSError: the file system is full (nothing was changed).
    """
    file = self._file
    needed = header.size + blob.size
    if file is None or file.slots[0].size < needed:
      # A quarter of room more than asked for, so that a header that grows by a
      # digit does not mean a new file.
      capacity = needed + needed // 4
      capacity = -(-capacity // _PAGE) * _PAGE
      with self._new_file(capacity) as file:
        _write(file, version, published_at_s, header, blob)
      self._file = file
    else:
      _write(file, version, published_at_s, header, blob)

  @contextlib.contextmanager
  def _new_file(self, capacity: int):
    """Yields a file to be filled, which then takes the path in one step."""
    draft = f"{self._path}.draft"
    with contextlib.suppress(FileNotFoundError):
      os.unlink(draft)  # Left by a writer that was killed here.
    flags = os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC
    descriptor = os.open(draft, flags, 0o600)
    try:
      size = _PAGE + 2 * capacity
      # Reserves the memory now: on a full tmpfs a write through the mapping
      # would otherwise kill the process with SIGBUS.
      os.posix_fallocate(descriptor, 0, size)
      file = _File(descriptor, size, write=True)
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
    """Unlinks the file, unless another writer has replaced it meanwhile."""
    if self._file is None:
      return
    with contextlib.suppress(FileNotFoundError):
      status = os.stat(self._path)
      if (status.st_dev, status.st_ino) == self._file.identity:
        os.unlink(self._path)
    self._file = None


def _write(file: _File, version, published_at_s, header, blob) -> None:
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
  """Reads a file of shared variables; one for each worker process."""

  def __init__(self, path: str):
    """Does not touch the file, which may appear later.

    Args:
      path: as given to `SharedVariablesWriter`.
    """
    self._path = path
    self._file: _File | None = None
    self._count = 0  # of the version that was last returned from this file
    self._identity = (0, 0.0)  # its version and time of publication

  def poll(self) -> variable_packing.Snapshot | None:
    """The newest version, if it is another one than was last returned.

    Never waits. Without a change it costs one word of shared memory and one
    `os.stat`, which tells whether a restarted proxy has replaced the file.

    Returns:
      A snapshot of this caller's own memory, aligned to 64 bytes, or None: no
      other version, no file yet, or (at a writer's full speed) overtaken.

    Raises:
      ValueError: the file at the path is none of shared variables.
    """
    file = self._file
    if file is None or file.words[_COUNT_WORD] == self._count:
      file = self._attach()
    for _ in range(_ATTEMPTS):
      if file is None or file.words[_COUNT_WORD] == self._count:
        return None
      snapshot = self._read(file)
      if snapshot is not None:
        identity = snapshot[:2]
        # A restarted proxy's file opens with the version that is known already.
        if identity == self._identity:
          return None
        self._identity = identity
        return snapshot
    return None

  def _attach(self) -> _File | None:
    """The file at the path now, mapped again if it is another one."""
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
        file = _File(descriptor, status.st_size, write=False)
    finally:
      os.close(descriptor)
    if (
      file is None
      or file.words[_MAGIC_WORD] != _MAGIC
      or file.words[_CAPACITY_WORD] != file.slots[0].size
    ):
      raise ValueError(
        f"variables path {self._path!r} holds a file that no writer of this"
        " user and release made, so it is not read; remove it or name another"
        " path."
      )
    self._file = file
    self._count = 0
    return file

  def _read(self, file: _File) -> variable_packing.Snapshot | None:
    """Copies the newest slot; None if it was overwritten meanwhile."""
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
    return variable_packing.Snapshot(version, published_at_s, variables)
