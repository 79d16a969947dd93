"""Outbox: writes this process's files of a run, and retries after a full disk.

Data that a full or failing disk rejects is kept in memory. It is written with
the next call for the same file, or by `flush`. All functions are thread-safe.

```python
outbox.append(folder.curves_csv, b"1,2\\n")
outbox.flush()  # called regularly
outbox.unwritten()  # ['curves.csv'] while the disk is full
```
"""

import dataclasses
import errno
import pathlib
import threading

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
  """Data of a file that is not written yet: bytes to append, or all of it."""

  data: bytearray
  replaces: bool


_pending: dict[pathlib.Path, _PendingWrite] = {}
_lock = threading.RLock()


def append(path: pathlib.Path, data: bytes) -> None:
  """Appends data to a file, which is made if it is missing.

  Args:
    data: whole records of the file's format. They are dropped if the file
      already has 128 MiB of unwritten data.

  Raises:
    OSError: the file can't be written, for another reason than a full or
      failing disk.
  """
  with _lock:
    pending = _pending.setdefault(path, _PendingWrite(bytearray(), False))
    if len(pending.data) + len(data) <= _MAX_PENDING_BYTES:
      pending.data += data
    _write(path, pending)


def replace(path: pathlib.Path, data: bytes) -> None:
  """Replaces the content of a file atomically.

  Args:
    path: path of the file, which is made if it is missing.

  Raises:
    OSError: as for `append`.
  """
  with _lock:
    pending = _pending[path] = _PendingWrite(bytearray(data), True)
    _write(path, pending)


def flush() -> None:
  """Writes all unwritten data, as far as the disk accepts it now.

  Raises:
    OSError: as for `append`.
  """
  with _lock:
    for path, pending in tuple(_pending.items()):
      _write(path, pending)


def unwritten() -> list[str]:
  """Returns the names of the files with unwritten data, sorted."""
  with _lock:
    return sorted(path.name for path in _pending)


def _write(path: pathlib.Path, pending: _PendingWrite) -> None:
  """Writes the unwritten data of a file, or keeps the data for a retry."""
  try:
    with run_folder.writing(path):
      write = _replace_file if pending.replaces else _append_to_file
      write(path, pending.data)
  except OSError as error:
    cause = error.__cause__
    if isinstance(cause, OSError) and cause.errno in _TRANSIENT:
      return
    del _pending[path]
    raise
  del _pending[path]


def _replace_file(path: pathlib.Path, data: bytearray) -> None:
  """Replaces the content of a file atomically."""
  with run_folder.replacing(path) as temporary, temporary.open("wb") as file:
    # Path.write_bytes makes a view of `data`, which an error's traceback keeps.
    # Nothing could be appended to `data` then.
    file.write(data)


def _append_to_file(path: pathlib.Path, data: bytearray) -> None:
  """Appends data to a file, and removes the written bytes from `data`."""
  # After an error, `data` thus has the bytes that are still to be written.
  with open(path, "ab", buffering=0) as file:
    while data:
      del data[: file.write(data)]
