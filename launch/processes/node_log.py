"""NodeLog: the log file with the output of all processes of one node."""

import contextlib
import os
import pathlib

# Size in bytes above which the older half of a log is dropped.
MAX_BYTES = 10_000_000


class NodeLog:
  """A log file of limited size, to which all processes of a node append.

  The file can be trimmed while a process prints.

  Attributes:
    path: path of the file.
    start: offset in bytes at which the output of the newest process begins.
  """

  def __init__(self, path: pathlib.Path):
    """Stores the path of the log file, without opening the file."""
    self.path = path
    self.start = 0

  def begin(self) -> None:
    """Sets `start` for a new process, and makes the file if it is missing.

    Errors such as a full disk are ignored, so that the process can start.
    """
    with contextlib.suppress(OSError):
      self.path.parent.mkdir(exist_ok=True)
      self.path.touch()
    self.start = self._size()

  def trim(self) -> None:
    """Drops the older half of the log if it is larger than `MAX_BYTES`.

    Output that a process prints during this call may be lost, too.
    """
    size = self._size()
    if size <= MAX_BYTES:
      return
    dropped = size - MAX_BYTES // 2
    with contextlib.suppress(OSError), open(self.path, "r+b") as file:
      file.seek(dropped)
      _, _, newest = file.read(MAX_BYTES // 2).partition(b"\n")
      note = f"[{dropped:,} bytes of this log were dropped here]\n"
      # Emptied in place and not replaced, because the node's process has the
      # file open.
      file.truncate(0)
      self.start = max(0, self.start - dropped)
      with open(self.path, "ab") as end:
        end.write(note.encode() + newest)

  def _size(self) -> int:
    """Returns the size of the file in bytes, or 0 if the file is missing."""
    try:
      return os.path.getsize(self.path)
    except OSError:
      return 0
