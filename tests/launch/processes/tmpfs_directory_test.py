"""Tests that tmpfs directories of ended and killed runs are removed."""

import os
import pathlib
import subprocess
import sys
import tempfile
import time

import pytest

from slipway.launch.processes import tmpfs_directory


def leave(pid, age_s):
  """Makes a directory as left behind by a run.

  Args:
    pid: pid of the run's process.
    age_s: seconds since the directory's last change.
  """
  with tmpfs_directory.create() as path:
    parent = pathlib.Path(path).parent
  left = parent / f"slipway-{pid}-{os.getpid()}{age_s:.0f}"
  (left / "inside").mkdir(parents=True)
  then_s = time.time() - age_s
  os.utime(left, (then_s, then_s))
  return left


def test_a_directory_is_private_and_is_removed():
  with tmpfs_directory.create() as path:
    assert os.stat(path).st_mode & 0o777 == 0o700
    assert tempfile.gettempdir() == path
    with tmpfs_directory.create() as other:
      assert other != path
    assert os.path.isdir(path)
  assert not os.path.exists(path)
  assert tempfile.gettempdir() != path


def test_only_unused_directories_are_removed():
  ended = subprocess.Popen([sys.executable, "-c", ""])
  ended.wait()
  left = leave(ended.pid, age_s=100.0)
  kept = [
    leave(ended.pid, age_s=10.0),  # the run's nodes may still be saving
    leave(os.getpid(), age_s=100.0),
    leave("", age_s=100.0),  # not of a run
  ]
  try:
    with tmpfs_directory.create():
      assert not left.exists()
      assert all(path.is_dir() for path in kept)
  finally:
    for path in kept:
      (path / "inside").rmdir()
      path.rmdir()


_PRINTS_PARENT = """
import pathlib
from slipway.launch.processes import tmpfs_directory
with tmpfs_directory.create() as path:
  pathlib.Path(path, "file").write_text("written")
  print(pathlib.Path(path).parent)
"""


# Options of the mount, and the length of TMPDIR's last name.
MOUNTS = [("ro", 1), ("size=64k", 1), ("ro", 100)]


@pytest.mark.parametrize(("options", "length"), MOUNTS)
def test_a_full_or_read_only_memory_is_not_used(options, length):
  mount = f"mount -t tmpfs -o {options} tmpfs /dev/shm"
  namespace = ["unshare", "--map-root-user", "--mount", "sh", "-c"]
  if subprocess.run([*namespace, mount], capture_output=True).returncode:
    pytest.skip("this machine allows no mounts in a namespace")
  with tempfile.TemporaryDirectory(prefix="x" * length, dir="/tmp") as folder:
    done = subprocess.run(
      [*namespace, f'{mount} && exec "$@"', "sh", sys.executable]
      + ["-c", _PRINTS_PARENT],
      capture_output=True,
      text=True,
      env={**os.environ, "TMPDIR": folder},
    )
    if length == 1:
      assert done.stdout == f"{folder}\n", done.stderr
    else:
      assert "set TMPDIR to a path of at most" in done.stderr
      assert not os.listdir(folder)
