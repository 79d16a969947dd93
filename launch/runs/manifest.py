"""Manifest: a snapshot's list of files with sizes and checksums.

The first line of the manifest is JSON, and the second line is the checksum of
the first. Local and remote copies of a snapshot have the same manifest.
"""

import pathlib
import zlib

import fsspec
import msgspec

FILE = "manifest.json"  # name of the manifest in a snapshot's folder

# Largest size in bytes of a TFRecord file with a checksum in the manifest: 64
# MiB. TFRecords contain a checksum per record, and a restart must not read
# their gigabytes twice.
_MAX_RECORDS_BYTES = 1 << 26
_TFRECORD = ".tfrecord"  # suffix of Reverb's files
_BLOCK_BYTES = 1 << 20  # bytes that are read at once for a checksum


class Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
  """Size and checksum of one file of a snapshot.

  Attributes:
    bytes: size of the file in bytes.
    crc32: CRC-32 checksum of the file, or None for a TFRecord file above 64
      MiB.
  """

  bytes: int
  crc32: int | None


class Manifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
  """The content of a manifest: the trainer step and the files of a snapshot.

  Attributes:
    step: trainer step of the snapshot.
    files: size and checksum of each file, by path within the snapshot.
  """

  step: int
  files: dict[str, Entry]


def write(folder: pathlib.Path, step: int) -> None:
  """Writes the manifest of all files in a snapshot's folder.

  Args:
    folder: the snapshot's folder, in which all other files are complete.
    step: trainer step of the snapshot.

  Raises:
    OSError: the disk rejects the file.
  """
  files = {}
  for path in sorted(folder.rglob("*")):
    if path.is_file():
      size = path.stat().st_size
      name = str(path.relative_to(folder))
      is_large = path.suffix == _TFRECORD and size > _MAX_RECORDS_BYTES
      files[name] = Entry(size, None if is_large else _checksum(path))
  content = msgspec.json.encode(Manifest(step, files)).decode()
  (folder / FILE).write_text(f"{content}\n{zlib.crc32(content.encode())}")


def check_sizes(files: fsspec.AbstractFileSystem, folder: str) -> Manifest:
  """Returns a snapshot's manifest, after a check of the sizes of its files.

  Args:
    files: file system of the snapshot, local or remote.
    folder: the snapshot's folder.

  Raises:
    ValueError: a file is missing or has another size; the message names it.
    OSError: the file system cannot be read.
  """
  manifest = _read_manifest(files, folder)
  sizes = {
    path.removeprefix(f"{folder}/"): info["size"]
    for path, info in files.find(folder, detail=True).items()
  }
  for name, expected in manifest.files.items():
    if name not in sizes:
      raise ValueError(f"{name} is missing")
    if sizes[name] != expected.bytes:
      raise ValueError(f"{name} has {sizes[name]} bytes of {expected.bytes}")
  return manifest


def check(folder: pathlib.Path) -> Manifest:
  """Returns a local snapshot's manifest, after a check of all its files.

  Sizes are compared, and the checksums of all files that have one.

  Args:
    folder: the snapshot's folder.

  Raises:
    ValueError: a file is missing or damaged; the message names it.
    OSError: the disk cannot be read.
  """
  manifest = check_sizes(fsspec.filesystem("file"), str(folder.absolute()))
  for name, expected in manifest.files.items():
    crc32 = expected.crc32
    if crc32 is not None and _checksum(folder / name) != crc32:
      raise ValueError(f"{name} differs from what was written")
  return manifest


def _read_manifest(files: fsspec.AbstractFileSystem, folder: str) -> Manifest:
  """Reads a snapshot's manifest, without a look at the other files.

  Args:
    files: file system of the snapshot, local or remote.
    folder: the snapshot's folder.

  Raises:
    ValueError: the manifest is missing or damaged, or lists a file outside of
      the snapshot.
  """
  try:
    text = str(files.read_text(f"{folder}/{FILE}", errors="replace"))
  except (FileNotFoundError, NotADirectoryError):
    raise ValueError(f"{FILE} is missing") from None
  content, _, checksum = text.partition("\n")
  if checksum != str(zlib.crc32(content.encode())):
    raise ValueError(f"{FILE} differs from what was written")
  manifest = msgspec.json.decode(content, type=Manifest)
  for name in manifest.files:
    # `get` copies files by these paths, and must not write outside its folder.
    if name.startswith("/") or ".." in name.split("/"):
      raise ValueError(f"{FILE} lists {name!r}, outside of the snapshot")
  return manifest


def _checksum(path: pathlib.Path) -> int:
  """Returns the CRC-32 checksum of a file."""
  crc32 = 0
  with path.open("rb") as file:
    while block := file.read(_BLOCK_BYTES):
      crc32 = zlib.crc32(block, crc32)
  return crc32
