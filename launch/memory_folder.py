"""The memory folder: what a run keeps in memory, and nothing else of it."""

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from unittest import mock


@contextlib.contextmanager
def made() -> Iterator[str]:
  """A folder in memory that only this user may enter, for one run.

  Launchpad, Reverb and TensorFlow leave temporary files behind: here, none
  outlives the run.
  """
  shared_memory = "/dev/shm" if os.path.isdir("/dev/shm") else None
  path = tempfile.mkdtemp(prefix=f"slipway-{os.getpid()}-", dir=shared_memory)
  try:
    with mock.patch.object(tempfile, "tempdir", path):
      yield path
  finally:
    shutil.rmtree(path, ignore_errors=True)
