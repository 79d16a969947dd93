"""A small file system in memory that a test can fill."""

import contextlib
import os
import subprocess

import pytest

needs_root = pytest.mark.skipif(
  os.geteuid() != 0, reason="only root may mount a file system"
)


@contextlib.contextmanager
def mounted(path, megabytes):
  """Makes a folder, and mounts a file system of a few megabytes there."""
  path.mkdir()
  mount = ("mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs")
  if subprocess.run([*mount, path], capture_output=True).returncode:
    pytest.skip("this system's root may not mount a file system")
  try:
    yield path
  finally:
    subprocess.run(["umount", "--lazy", path], check=True)


def fill(path, free=0):
  """Fills a file system, and returns the file that takes the space.

  Args:
    path: folder of the file system.
    free: bytes that stay free.
  """
  filler = path / "filler"
  with open(filler, "ab", buffering=0) as file:
    for size in (1 << 20, 1 << 12):
      with contextlib.suppress(OSError):
        while file.write(bytes(size)):
          pass
    file.truncate(file.tell() - free)
  return filler
