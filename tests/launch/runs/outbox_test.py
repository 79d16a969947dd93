"""Tests that the outbox writes data once a full disk has space again."""

import pytest

from slipway.launch.runs import outbox
from tests.launch import small_disk


@pytest.fixture
def disk(tmp_path):
  with small_disk.mounted(tmp_path / "disk", megabytes=1) as path:
    yield path


def test_files_are_written_at_once(tmp_path):
  for part in (b"a\n", b"b\n"):
    outbox.append(tmp_path / "log", part)
    outbox.replace(tmp_path / "state", part)
  assert (tmp_path / "log").read_bytes() == b"a\nb\n"
  assert (tmp_path / "state").read_bytes() == b"b\n"
  assert outbox.unwritten() == []
  assert len(list(tmp_path.iterdir())) == 2


@small_disk.needs_root
def test_a_full_disk_only_delays_writes(disk):
  outbox.append(disk / "log", b"0")
  outbox.replace(disk / "state", b"old")
  filler = small_disk.fill(disk, free=8192)
  parts = [bytes([number]) * 3_000 for number in range(9)]
  for part in parts:  # the disk fills in the middle of one part
    outbox.append(disk / "log", part)
  outbox.append(disk / "new", b"1")
  outbox.replace(disk / "state", b"older")
  outbox.replace(disk / "state", b"2")
  outbox.append(disk / "state", b"3")
  assert outbox.unwritten() == ["log", "new", "state"]
  assert (disk / "state").read_bytes() == b"old"
  outbox.flush()
  assert outbox.unwritten() == ["log", "new", "state"]
  filler.unlink()
  outbox.flush()
  assert outbox.unwritten() == []
  assert (disk / "log").read_bytes() == b"".join([b"0", *parts])
  assert (disk / "new").read_bytes() == b"1"
  assert (disk / "state").read_bytes() == b"23"


@small_disk.needs_root
def test_the_pending_bytes_are_bounded(disk, monkeypatch):
  monkeypatch.setattr(outbox, "_MAX_PENDING_BYTES", 10)
  filler = small_disk.fill(disk)
  for part in (b"1234\n", b"too long\n", b"567\n"):
    outbox.append(disk / "log", part)
  filler.unlink()
  outbox.append(disk / "log", b"890\n")
  assert (disk / "log").read_bytes() == b"1234\n567\n"
  outbox.append(disk / "log", b"more\n")
  assert (disk / "log").read_bytes() == b"1234\n567\nmore\n"


@pytest.mark.parametrize("call", ["append", "replace"])
def test_another_error_raises_one_line(tmp_path, call):
  (tmp_path / "file").mkdir()
  with pytest.raises(OSError) as error:
    getattr(outbox, call)(tmp_path / "file", b"1")
  assert str(error.value).startswith(repr(str(tmp_path / "file")))
  assert "\n" not in str(error.value)
  assert outbox.unwritten() == []
  assert len(list(tmp_path.iterdir())) == 1


def test_a_folder_that_was_deleted_is_named(tmp_path):
  folder = tmp_path / "gone"
  with pytest.raises(OSError, match="gone' was moved or deleted"):
    outbox.append(folder / "curves.csv", b"1\n")
