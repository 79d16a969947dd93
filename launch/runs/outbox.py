"""Outbox: writes a run's files, and keeps what a full disk rejects."""

import dataclasses
import errno
import pathlib

from slipway.launch.runs import run_folder

# A full disk, a used-up quota, a disk that fails or was remounted to be read
# only, and a process without files to open: the disk may take it later. Any
# other error is one of the program or its user.
_PASSING = (
  *(errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS, errno.ESTALE),
  *(errno.EMFILE, errno.ENFILE),
)
# Of one file that is appended to: a day of events at one a second.
_MAX_KEPT_BYTES = 1 << 27


@dataclasses.dataclass
class _Kept:
  """What a file still lacks: bytes to append, or its whole new content."""

  data: bytearray
  replaces: bool


class Outbox:
  """Appends to files and replaces them; a full disk only delays that.

  What the disk rejects is kept in memory, and written with the next call for
  the same file, or by `flush`. For one thread at a time.

  ```python
  outbox = Outbox()
  outbox.append(folder.curves_csv, b"1,2\\n")
  outbox.flush()  # now and then
  outbox.unwritten  # ['curves.csv'] while the disk is full
  ```
  """

  def __init__(self):
    """Touches no file."""
    self._kept: dict[pathlib.Path, _Kept] = {}

  def append(self, path: pathlib.Path, data: bytes) -> None:
    """Appends to a file, which is made if it is missing.

    Args:
      path: of the file.
      data: whole records; dropped if too much is kept for the file already.

    Raises:
      OSError: one line naming the file: it can't be written, for another reason
        than a full or failing disk.
    """
    kept = self._kept.setdefault(path, _Kept(bytearray(), replaces=False))
    if len(kept.data) + len(data) <= _MAX_KEPT_BYTES:
      kept.data += data
    self._write(path)

  def replace(self, path: pathlib.Path, data: bytes) -> None:
    """Replaces a file; a reader finds the old one or the new one, never half.

    Args:
      path: of the file.
      data: its whole content.

    Raises:
      OSError: as `append`.
    """
    self._kept[path] = _Kept(bytearray(data), replaces=True)
    self._write(path)

  def flush(self) -> None:
    """Writes what was kept, if that is possible now; raises as `append`."""
    for path in list(self._kept):
      self._write(path)

  @property
  def unwritten(self) -> list[str]:
    """Names of the files that lack something, in order."""
    return sorted(path.name for path in self._kept)

  def _write(self, path: pathlib.Path) -> None:
    kept = self._kept[path]
    try:
      with run_folder.writing(path):
        _replace(path, kept.data) if kept.replaces else _append(path, kept.data)
    except OSError as error:
      cause = error.__cause__
      if isinstance(cause, OSError) and cause.errno in _PASSING:
        return
      del self._kept[path]
      raise
    del self._kept[path]


def _replace(path: pathlib.Path, data: bytearray) -> None:
  with run_folder.replacing(path) as beside:
    beside.write_bytes(data)


def _append(path: pathlib.Path, data: bytearray) -> None:
  """Appends, and removes from `data` what was written."""
  with open(path, "ab", buffering=0) as file:
    while data:
      del data[: file.write(data)]
