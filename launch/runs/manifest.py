"""Manifest: lists the files of a snapshot, to detect damage.

The second line is the checksum of the first one. Local and remote copies of a
snapshot have the same manifest.
"""

import pathlib
import zlib

import fsspec
import msgspec

FILE = "manifest.json"  # in the folder of a snapshot

# Size up to which a file has a checksum here. Larger files are TFRecords, which
# contain checksums; a restart must not read their gigabytes twice.
_CHECKSUM_BYTES = 1 << 26


class Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
  """One file of a snapshot.

  Attributes:
    bytes: size of the file in bytes.
    crc32: checksum of the file, or None if the file is too large for one.
  """

  bytes: int
  crc32: int | None


class Manifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
  """All files of a snapshot.

  Attributes:
    step: trainer step of the snapshot.
    files: entry of each file, by path within the snapshot.
  """

  step: int
  files: dict[str, Entry]


def write(folder: pathlib.Path, step: int) -> None:
  """Writes the manifest of a snapshot.

  Args:
    folder: the snapshot's folder, with all other files.
    step: trainer step of the snapshot.

  Raises:
    OSError: the disk rejects the file.
  """
  files = {}
  for path in sorted(folder.rglob("*")):
    if path.is_file():
      size = path.stat().st_size
      name = str(path.relative_to(folder))
      files[name] = Entry(size, _checksum(path, size))
  content = msgspec.json.encode(Manifest(step, files)).decode()
  (folder / FILE).write_text(f"{content}\n{zlib.crc32(content.encode())}")


def check_sizes(files: fsspec.AbstractFileSystem, folder: str) -> Manifest:
  """Reads the manifest of a snapshot and compares the sizes of its files.

  Args:
    files: file system of the snapshot.
    folder: the snapshot's folder.

  Raises:
    ValueError: a short text that names the damaged file.
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
  """Checks the sizes and checksums of the files of a local snapshot.

  Args:
    folder: the snapshot's folder.

  Raises:
    ValueError: a short text that names the damaged file.
    OSError: the disk cannot be read.
  """
  manifest = check_sizes(fsspec.filesystem("file"), str(folder.absolute()))
  for name, expected in manifest.files.items():
    if _checksum(folder / name, expected.bytes) != expected.crc32:
      raise ValueError(f"{name} differs from what was written")
  return manifest


def _read_manifest(files: fsspec.AbstractFileSystem, folder: str) -> Manifest:
  """Reads and checks a snapshot's manifest; raises ValueError if damaged."""
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


def _checksum(path: pathlib.Path, size: int) -> int | None:
  """Returns the checksum of a file, or None if the file is too large."""
  return zlib.crc32(path.read_bytes()) if size <= _CHECKSUM_BYTES else None
