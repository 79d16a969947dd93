"""Outbox: writes a run's files, and retries writes after a full disk."""

import dataclasses
import errno
import pathlib

from slipway.launch.runs import run_folder

# Numbers of the errors after which a retry may succeed: a full disk or quota, a
# failing or read-only disk, and too many open files. Other errors are faults of
# the program or user.
_TRANSIENT = (
  *(errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS, errno.ESTALE),
  *(errno.EMFILE, errno.ENFILE),
)
# Most bytes of unwritten data that are kept in memory per appended file: enough
# for a day of events at one per second.
_MAX_PENDING_BYTES = 1 << 27


@dataclasses.dataclass
class _PendingWrite:
  """Data of one file that is not written yet.

  Attributes:
    data: bytes to append to a file, or its whole new content.
    replaces: whether `data` is the whole new content.
  """

  data: bytearray
  replaces: bool


class Outbox:
  """Appends to files and replaces files, and retries after a full disk.

  Data that a full or failing disk rejects is kept in memory. It is written with
  the next call for the same file, or by `flush`. Not thread-safe.

  ```python
  outbox = Outbox()
  outbox.append(folder.curves_csv, b"1,2\\n")
  outbox.flush()  # called regularly
  outbox.unwritten  # ['curves.csv'] while the disk is full
  ```
  """

  def __init__(self):
    """Starts without unwritten data."""
    self._pending: dict[pathlib.Path, _PendingWrite] = {}

  def append(self, path: pathlib.Path, data: bytes) -> None:
    """Appends data to a file, which is made if it is missing.

    Args:
      path: path of the file.
      data: whole records of the file's format. They are dropped if the file
        already has 128 MiB of unwritten data.

    Raises:
      OSError: the file can't be written, for another reason than a full or
        failing disk.
    """
    pending = self._pending.setdefault(
      path, _PendingWrite(bytearray(), replaces=False)
    )
    if len(pending.data) + len(data) <= _MAX_PENDING_BYTES:
      pending.data += data
    self._write(path)

  def replace(self, path: pathlib.Path, data: bytes) -> None:
    """Replaces the content of a file atomically.

    Args:
      path: path of the file, which is made if it is missing.
      data: the whole new content.

    Raises:
      OSError: the file can't be written, for another reason than a full or
        failing disk.
    """
    self._pending[path] = _PendingWrite(bytearray(data), replaces=True)
    self._write(path)

  def read(self, path: pathlib.Path) -> bytes:
    """Returns a file's content with its unwritten data; b"" if it is missing.

    Args:
      path: path of the file.

    Raises:
      OSError: the file can't be read.
    """
    pending = self._pending.get(path)
    if pending is not None and pending.replaces:
      return bytes(pending.data)
    content = path.read_bytes() if path.exists() else b""
    return content + pending.data if pending is not None else content

  def flush(self) -> None:
    """Writes all unwritten data, as far as the disk accepts it now.

    Raises:
      OSError: a file can't be written, for another reason than a full or
        failing disk.
    """
    for path in list(self._pending):
      self._write(path)

  @property
  def unwritten(self) -> list[str]:
    """Names of the files with unwritten data, sorted, without folders."""
    # Another thread may report this one's files.
    return sorted(path.name for path in list(self._pending))

  def _write(self, path: pathlib.Path) -> None:
    """Writes the unwritten data of a file, or keeps the data for a retry."""
    pending = self._pending[path]
    try:
      with run_folder.writing(path):
        write = _replace_file if pending.replaces else _append_to_file
        write(path, pending.data)
    except OSError as error:
      cause = error.__cause__
      if isinstance(cause, OSError) and cause.errno in _TRANSIENT:
        return
      del self._pending[path]
      raise
    del self._pending[path]


def _replace_file(path: pathlib.Path, data: bytearray) -> None:
  """Replaces the content of a file atomically."""
  with run_folder.replacing(path) as temporary, temporary.open("wb") as file:
    # Path.write_bytes makes a view of `data`, which an error's traceback keeps.
    # Nothing could be appended to `data` then.
    file.write(data)


def _append_to_file(path: pathlib.Path, data: bytearray) -> None:
  """Appends data to a file, and removes the written bytes from `data`.

  After an error, `data` thus has the bytes that are still to be written.
  """
  with open(path, "ab", buffering=0) as file:
    while data:
      del data[: file.write(data)]
