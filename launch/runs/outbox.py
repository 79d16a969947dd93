"""Outbox: writes a run's files, and retries after a full disk."""

import dataclasses
import errno
import pathlib

from slipway.launch.runs import run_folder

# Errors after which a retry may succeed: a full disk or quota, a failing or
# read-only disk, and too many open files. Other errors are faults of the
# program or user.
_TRANSIENT = (
  *(errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS, errno.ESTALE),
  *(errno.EMFILE, errno.ENFILE),
)
# Limit per appended file: a day of events, one per second.
_MAX_KEPT_BYTES = 1 << 27


@dataclasses.dataclass
class _Kept:
  """The unwritten data of a file: bytes to append, or its new content."""

  data: bytearray
  replaces: bool


class Outbox:
  """Appends to files and replaces them, with a retry after a full disk.

  Data that the disk rejects is kept in memory, and written with the next call
  for the same file or by `flush`. Not thread-safe.

  ```python
  outbox = Outbox()
  outbox.append(folder.curves_csv, b"1,2\\n")
  outbox.flush()  # called regularly
  outbox.unwritten  # ['curves.csv'] while the disk is full
  ```
  """

  def __init__(self):
    """Starts without unwritten data."""
    self._kept: dict[pathlib.Path, _Kept] = {}

  def append(self, path: pathlib.Path, data: bytes) -> None:
    """Appends data to a file, which is made if it is missing.

    Args:
      path: path of the file.
      data: whole records; dropped if the file has too much unwritten data.

    Raises:
      OSError: one line that names the file: it can't be written, for another
        reason than a full or failing disk.
    """
    kept = self._kept.setdefault(path, _Kept(bytearray(), replaces=False))
    if len(kept.data) + len(data) <= _MAX_KEPT_BYTES:
      kept.data += data
    self._write(path)

  def replace(self, path: pathlib.Path, data: bytes) -> None:
    """Replaces the content of a file atomically.

    Args:
      path: path of the file.
      data: the whole content.

    Raises:
      OSError: one line that names the file; see `append`.
    """
    self._kept[path] = _Kept(bytearray(data), replaces=True)
    self._write(path)

  def flush(self) -> None:
    """Writes all unwritten data, if the disk accepts it now.

    Raises:
      OSError: one line that names the file; see `append`.
    """
    for path in list(self._kept):
      self._write(path)

  @property
  def unwritten(self) -> list[str]:
    """Sorted names of the files with unwritten data."""
    return sorted(path.name for path in self._kept)

  def _write(self, path: pathlib.Path) -> None:
    kept = self._kept[path]
    try:
      with run_folder.writing(path):
        _replace(path, kept.data) if kept.replaces else _append(path, kept.data)
    except OSError as error:
      cause = error.__cause__
      if isinstance(cause, OSError) and cause.errno in _TRANSIENT:
        return
      del self._kept[path]
      raise
    del self._kept[path]


def _replace(path: pathlib.Path, data: bytearray) -> None:
  with run_folder.replacing(path) as temporary:
    temporary.write_bytes(data)


def _append(path: pathlib.Path, data: bytearray) -> None:
  """Appends data to a file, and removes the written bytes from `data`."""
  with open(path, "ab", buffering=0) as file:
    while data:
      del data[: file.write(data)]
