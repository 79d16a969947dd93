"""Tests of shared variables between real processes, some of them killed."""

import multiprocessing
import os
import random
import stat
import subprocess
import sys
import time

import numpy as np
import pytest

from slipway.replay.variables import shared_variables, variable_packing
from tests.launch import errors, small_disk

# Spawned processes share no memory with pytest, and import no TensorFlow.
_CONTEXT = multiprocessing.get_context("spawn")


def _arrays(version: int, size: int = 50_000) -> dict[str, np.ndarray]:
  """Returns arrays in which each element is the version."""
  return {
    "head": np.full(3, version, np.int64),
    "body": np.full(size, version, np.int64),
    "tail": np.array(version),
  }


def _write(writer, version: int, size: int = 50_000) -> None:
  packed = variable_packing.pack(_arrays(version, size))
  writer.write(version, float(version), *packed)


def _assert_whole(snapshot) -> None:
  assert snapshot.published_at_s == snapshot.version
  for name, value in snapshot.variables.items():
    assert (value == snapshot.version).all(), (name, snapshot.version)
    assert value.ctypes.data % variable_packing.ALIGNMENT == 0


def _write_for_ever(path: str, first_version: int, ready) -> None:
  """Writes at full speed, in a cycle of sizes, so files are also replaced."""
  writer = shared_variables.SharedVariablesWriter(path)
  version = first_version
  while True:
    _write(writer, version, 20_000 + version % 7 * 1_000)
    ready.set()
    version += 1


def _read_for(path: str, seconds: float, results) -> None:
  reader = shared_variables.SharedVariables(path)
  end_s = time.monotonic() + seconds
  last = count = 0
  try:
    while time.monotonic() < end_s:
      snapshot = reader.poll()
      if snapshot is not None:
        _assert_whole(snapshot)
        assert snapshot.version > last
        last = snapshot.version
        count += 1
  except Exception as error:
    results.put(repr(error))
  else:
    results.put(count)


def _start_writer(path: str, first_version: int):
  ready = _CONTEXT.Event()
  process = _CONTEXT.Process(
    target=_write_for_ever, args=(path, first_version, ready), daemon=True
  )
  process.start()
  assert ready.wait(30)
  return process


@pytest.fixture
def path(tmp_path):
  return str(tmp_path / "variables")


def test_a_reader_needs_no_tensorflow():
  code = (
    "import sys; from slipway.replay import proxy;"
    "from slipway.replay.transport import relay;"
    "from slipway.replay.variables import shared_variables;"
    ' sys.exit(bool({"tensorflow", "reverb"} & set(sys.modules)))'
  )
  subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_poll_returns_each_version_once(path):
  reader = shared_variables.SharedVariables(path)
  assert reader.poll() is None
  writer = shared_variables.SharedVariablesWriter(path)
  assert reader.poll() is None
  for version in (1, 2, 3):
    _write(writer, version)
    snapshot = reader.poll()
    assert snapshot.version == version
    _assert_whole(snapshot)
    assert reader.poll() is None
  _write(writer, 4)
  _write(writer, 5)
  assert reader.poll().version == 5
  # A snapshot is a copy of the reader: later versions do not change it.
  _write(writer, 6)
  _write(writer, 7)
  _assert_whole(snapshot)
  writer.close()


def test_file_is_private_to_this_user_and_removed_with_its_writer(path):
  writer = shared_variables.SharedVariablesWriter(path)
  assert not os.path.exists(path)
  _write(writer, 1)
  assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
  assert os.listdir(os.path.dirname(path)) == ["variables"]
  reader = shared_variables.SharedVariables(path)
  assert reader.poll().version == 1
  writer.close()
  assert not os.path.exists(path)
  assert reader.poll() is None


def test_a_version_that_outgrows_the_file_replaces_it(path):
  writer = shared_variables.SharedVariablesWriter(path)
  reader = shared_variables.SharedVariables(path)
  for version, size in enumerate((0, 10, 100_000, 5, 1_000_000), 1):
    _write(writer, version, size)
    snapshot = reader.poll()
    assert snapshot.version == version
    assert snapshot.variables["body"].size == size
    _assert_whole(snapshot)
  writer.close()


def test_readers_follow_a_new_writer_whose_file_the_old_one_keeps(path):
  old = shared_variables.SharedVariablesWriter(path)
  reader = shared_variables.SharedVariables(path)
  _write(old, 8)
  assert reader.poll().version == 8
  new = shared_variables.SharedVariablesWriter(path)
  assert reader.poll() is None
  _write(new, 8)
  assert reader.poll() is None  # The same version, from the new writer.
  _write(new, 3)  # As of a trainer that resumed from a checkpoint.
  assert reader.poll().version == 3
  old.close()
  assert shared_variables.SharedVariables(path).poll().version == 3
  new.close()


@pytest.mark.parametrize("content", [b"", b"x" * 100, b"x" * 10_000])
def test_a_file_of_another_kind_is_rejected(path, content):
  with open(path, "wb") as file:
    file.write(content)
  with pytest.raises(ValueError, match="no writer of this user and release"):
    shared_variables.SharedVariables(path).poll()


@pytest.mark.parametrize("damaged", ["sequence", "blob"])
def test_a_slot_that_is_being_written_is_not_returned(path, damaged):
  """Reproduces, field by field, writers that were killed while writing."""
  writer = shared_variables.SharedVariablesWriter(path)
  _write(writer, 1)
  slot = shared_variables._SLOT_WORDS[1]
  file = writer._file
  if damaged == "sequence":
    file.words[slot] += 1
  else:
    file.slots[1][100] ^= 255  # Only the checksum shows it.
  reader = shared_variables.SharedVariables(path)
  assert reader.poll() is None
  _write(writer, 2)
  assert reader.poll().version == 2
  writer.close()


def test_no_reader_gets_a_partial_version_at_full_speed(path):
  writer = _start_writer(path, 1)
  results = _CONTEXT.SimpleQueue()
  readers = [
    _CONTEXT.Process(target=_read_for, args=(path, 1.0, results))
    for _ in range(3)
  ]
  for reader in readers:
    reader.start()
  counts = [results.get() for _ in readers]
  for reader in readers:
    reader.join()
  writer.kill()
  writer.join()
  assert all(isinstance(count, int) and count > 10 for count in counts), counts


@small_disk.needs_root
def test_a_full_disk_is_named_and_readers_keep_the_last_version(tmp_path):
  with small_disk.mounted(tmp_path / "disk", megabytes=1) as disk:
    path = str(disk / "variables")
    writer = shared_variables.SharedVariablesWriter(path)
    _write(writer, 1, size=100)
    reader = shared_variables.SharedVariables(path)
    filler = small_disk.fill(disk)
    with errors.one_line(path, "free that space", error=OSError):
      _write(writer, 2, size=1_000)
    assert reader.poll().version == 1
    filler.unlink()
    _write(writer, 3, size=1_000)
    assert reader.poll().version == 3
    writer.close()


def test_a_reader_of_a_replaced_file_gets_the_newest_version(path):
  writer = shared_variables.SharedVariablesWriter(path)
  reader = shared_variables.SharedVariables(path)
  _write(writer, 1, size=100)
  assert reader.poll().version == 1
  _write(writer, 2, size=100)
  _write(writer, 3, size=50_000)  # needs a new file
  assert reader.poll().version == 3
  assert reader.poll() is None


def test_writers_killed_at_any_time_leave_whole_versions(path):
  moments = random.Random(7)
  reader = shared_variables.SharedVariables(path)
  last = 0
  for _ in range(6):
    writer = _start_writer(path, last + 1_000_000)
    end_s = time.monotonic() + moments.uniform(0.0, 0.05)
    while time.monotonic() < end_s:
      snapshot = reader.poll()
      if snapshot is not None:
        _assert_whole(snapshot)
    writer.kill()
    writer.join()
    # No process writes now: both a new reader and the old one get the newest
    # version.
    newest = shared_variables.SharedVariables(path).poll()
    _assert_whole(newest)
    assert newest.version >= last + 1_000_000
    snapshot = reader.poll()
    if snapshot is not None:
      assert snapshot.version == newest.version
    last = newest.version
