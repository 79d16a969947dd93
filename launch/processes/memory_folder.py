"""The memory folder: what a run keeps in memory, and nothing else of it."""

import contextlib
import os
import pathlib
import re
import shutil
import tempfile
import time
from collections.abc import Iterator
from unittest import mock

_PREFIX = "slipway-"
# Seconds without a change after which a folder is nobody's: control nodes write
# to theirs every second, and outlive a launcher that is killed by less.
_LEFT_AFTER_S = 60.0


@contextlib.contextmanager
def made(where: str | None = None) -> Iterator[str]:
  """A folder in memory that only this user may enter, for one run.

  Launchpad, Reverb and TensorFlow leave temporary files behind: here, none
  outlives the run. What runs that were killed with all their processes have
  left is removed.

  Args:
    where: a folder to make it in, for what is too large for memory.
  """
  shared_memory = "/dev/shm" if os.path.isdir("/dev/shm") else None
  place = pathlib.Path(where or shared_memory or tempfile.gettempdir())
  for path in place.glob(f"{_PREFIX}*"):
    if _is_left(path):
      shutil.rmtree(path, ignore_errors=True)
  made = tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-", dir=place)
  try:
    with mock.patch.object(tempfile, "tempdir", made):
      yield made
  finally:
    shutil.rmtree(made, ignore_errors=True)


def _is_left(path: pathlib.Path) -> bool:
  """Whether a folder is of this user's, and of a run that is no more."""
  name = re.fullmatch(rf"{_PREFIX}(\d+)-.*", path.name)
  try:
    found = path.stat()
    if not name or found.st_uid != os.getuid():
      return False
    os.kill(int(name[1]), 0)
  except ProcessLookupError:
    return time.time() - found.st_mtime > _LEFT_AFTER_S
  except OSError:  # it is gone, or another's process has the number now
    pass
  return False
