"""NodeLog: the file that takes what the processes of one node print."""

import contextlib
import os
import pathlib

# Above this, the older half of a log is dropped.
MAX_BYTES = 10_000_000


class NodeLog:
  """The log of a node over all its processes, which can't fill the disk.

  A process prints into the file by its descriptor, opened to append, so the
  file can be cut while the process prints.

  Attributes:
    path: of the file.
    start: byte at which the log of the newest process begins.
  """

  def __init__(self, path: pathlib.Path):
    """Touches no file."""
    self.path = path
    self.start = 0

  def begin(self) -> None:
    """Makes the file, and marks its end: a new process starts.

    A full disk is no reason not to start it.
    """
    with contextlib.suppress(OSError):
      self.path.parent.mkdir(exist_ok=True)
      self.path.touch()
    self.start = self._size()

  def trim(self) -> None:
    """Drops the older half of a log that has grown too large.

    What a process prints at this very moment may be lost too.
    """
    size = self._size()
    if size <= MAX_BYTES:
      return
    dropped = size - MAX_BYTES // 2
    with contextlib.suppress(OSError), open(self.path, "r+b") as file:
      file.seek(dropped)
      _, _, newest = file.read(MAX_BYTES // 2).partition(b"\n")
      note = f"[{dropped:,} bytes of this log were dropped here]\n"
      file.truncate(0)
      self.start = max(0, self.start - dropped)
      with open(self.path, "ab") as end:
        end.write(note.encode() + newest)

  def _size(self) -> int:
    try:
      return os.path.getsize(self.path)
    except OSError:
      return 0
