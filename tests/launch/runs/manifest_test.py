"""Tests of the manifest: which damage of a snapshot's files it detects."""

import pytest

from slipway.launch.runs import manifest

LARGE = (1 << 26) + 1  # smallest TFRecord file without a checksum, bytes


def write(path, size):
  """Writes a sparse file of zeros, which takes no space on the disk."""
  path.parent.mkdir()
  with path.open("wb") as file:
    file.truncate(size)


def damage(path):
  """Changes the last byte of a file, but not its size."""
  with path.open("r+b") as file:
    file.seek(-1, 2)
    file.write(b"x")


# name of the file, size in bytes, whether a changed byte is detected
FILES = [
  ("table/records.npy", 10, True),
  ("table/records.npy", LARGE, True),
  ("replay/chunks.tfrecord", LARGE - 1, True),
  # Reverb itself checks each record when it reads the file.
  ("replay/chunks.tfrecord", LARGE, False),
]


@pytest.mark.parametrize(("name", "size", "detected"), FILES)
def test_a_damaged_file(tmp_path, name, size, detected):
  path = tmp_path / name
  write(path, size)
  manifest.write(tmp_path)
  manifest.check(tmp_path)
  damage(path)
  if not detected:
    manifest.check(tmp_path)
    return
  with pytest.raises(ValueError, match=f"{name} differs"):
    manifest.check(tmp_path)


def test_a_truncated_file_is_detected_without_a_checksum(tmp_path):
  path = tmp_path / "replay" / "chunks.tfrecord"
  write(path, LARGE)
  manifest.write(tmp_path)
  with path.open("r+b") as file:
    file.truncate(LARGE - 1)
  with pytest.raises(ValueError, match=r"chunks.tfrecord has"):
    manifest.check(tmp_path)
