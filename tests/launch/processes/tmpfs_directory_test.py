"""Tmpfs directory: removed with its run, and after killed runs."""

import os
import pathlib
import subprocess
import sys
import tempfile
import time

from slipway.launch.processes import tmpfs_directory


def leave(pid, age_s):
  """A folder as a run of process `pid` has left it."""
  with tmpfs_directory.create() as path:
    place = pathlib.Path(path).parent
  left = place / f"slipway-{pid}-{os.getpid()}{age_s:.0f}"
  (left / "inside").mkdir(parents=True)
  then_s = time.time() - age_s
  os.utime(left, (then_s, then_s))
  return left


def test_a_folder_of_its_own_that_goes_with_it():
  with tmpfs_directory.create() as path:
    assert os.stat(path).st_mode & 0o777 == 0o700
    assert tempfile.gettempdir() == path
    with tmpfs_directory.create() as other:
      assert other != path
    assert os.path.isdir(path)
  assert not os.path.exists(path)
  assert tempfile.gettempdir() != path


def test_only_what_nobody_uses_is_removed():
  ended = subprocess.Popen([sys.executable, "-c", ""])
  ended.wait()
  left = leave(ended.pid, age_s=100.0)
  kept = [
    leave(ended.pid, age_s=10.0),  # its nodes may still save
    leave(os.getpid(), age_s=100.0),
    leave("", age_s=100.0),  # no run's
  ]
  try:
    with tmpfs_directory.create():
      assert not left.exists()
      assert all(path.is_dir() for path in kept)
  finally:
    for path in kept:
      (path / "inside").rmdir()
      path.rmdir()
