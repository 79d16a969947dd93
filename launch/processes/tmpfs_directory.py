"""Tmpfs directory: a folder in memory for a run's sockets and shared files."""

import contextlib
import os
import pathlib
import re
import shutil
import tempfile
import time
from collections.abc import Iterator

# Beginning of the names of all tmpfs directories; the launcher's pid follows.
_PREFIX = "slipway-"
_MEMORY = "/dev/shm"  # a folder in memory
# Free bytes that it must have: twice the size of common networks' variables.
_FREE_BYTES = 16 * 2**20
# Seconds without a change after which the directory of a dead launcher is
# removed, since the pid may be that of another pid namespace.
_UNUSED_AFTER_S = 60.0
# Longest path in bytes of the folder with the directory. Unix sockets take 107,
# of which the directory's name and those of its sockets need 40.
_LONGEST_PARENT = 67


@contextlib.contextmanager
def create(parent: str | None = None) -> Iterator[str]:
  """Yields the path of a new tmpfs directory, which only this user can read.

  During the context, the directory also is Python's folder for temporary files,
  because Launchpad, Reverb and TensorFlow do not remove their own. Directories
  that killed runs have left behind are removed first.

  Args:
    parent: folder in which the directory is made, for contents that are too
      large for memory; None selects /dev/shm, which is in memory, or the
      folder for temporary files if /dev/shm is missing, read-only or full.

  Raises:
    OSError: no folder can be written, or the path of the folder for temporary
      files is too long for sockets.
  """
  parent_path = pathlib.Path(parent or _find_parent())
  for path in parent_path.glob(f"{_PREFIX}*"):
    if _is_unused(path):
      shutil.rmtree(path, ignore_errors=True)
  path = tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-", dir=parent_path)
  before, tempfile.tempdir = tempfile.tempdir, path
  try:
    yield path
  finally:
    tempfile.tempdir = before
    shutil.rmtree(path, ignore_errors=True)


def _find_parent() -> str:
  """Returns the folder of new tmpfs directories."""
  with contextlib.suppress(OSError):
    memory = os.statvfs(_MEMORY)
    free_bytes = memory.f_bavail * memory.f_frsize
    if os.access(_MEMORY, os.W_OK | os.X_OK) and free_bytes >= _FREE_BYTES:
      return _MEMORY
  found = tempfile.gettempdir()
  if len(os.fsencode(found)) > _LONGEST_PARENT:
    raise OSError(
      f"the folder for temporary files, {found!r}, is too long for the paths "
      f"of sockets, and {_MEMORY} can't be used: set TMPDIR to a path of at "
      f"most {_LONGEST_PARENT} bytes"
    )
  return found


def remove_own() -> None:
  """Removes the directory of this process's run, whose launcher has died.

  The fork server's variable TMPDIR names it.
  """
  path = pathlib.Path(os.environ.get("TMPDIR", ""))
  if path.name.startswith(_PREFIX):
    shutil.rmtree(path, ignore_errors=True)


def _is_unused(path: pathlib.Path) -> bool:
  """Returns whether a directory of this user is that of an ended run."""
  # The run has ended if its launcher, whose pid is in the directory's name, is
  # dead, and the directory has not changed for 60 s.
  name = re.fullmatch(rf"{_PREFIX}(?P<pid>\d+)-.*", path.name)
  try:
    found = path.stat()
    if not name or found.st_uid != os.getuid():
      return False
    os.kill(int(name["pid"]), 0)  # signal 0 only checks that it exists
  except ProcessLookupError:
    return time.time() - found.st_mtime > _UNUSED_AFTER_S
  except OSError:
    # The directory was removed, or the pid is now that of another user's
    # process.
    pass
  return False
