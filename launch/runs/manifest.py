"""Manifest: the list of a snapshot's files, by which damage is detected.

A snapshot is complete if it has a manifest, and all files that the manifest
lists have their sizes. Local and remote copies have the same manifest.
"""

import pathlib
import re
import typing
import zlib
from collections.abc import Collection

import fsspec
import msgspec

FILE = "manifest.json"  # name of the manifest in a snapshot's folder

# Largest size in bytes of a TFRecord file with a checksum in the manifest: 64
# MiB. TFRecords contain a checksum per record, and a restart must not read
# their gigabytes twice.
_MAX_RECORDS_BYTES = 1 << 26
_TFRECORD = ".tfrecord"  # suffix of Reverb's files
_BLOCK_BYTES = 1 << 20  # bytes that are read at once for a checksum
_NUMBERED = re.compile(r"\d{6,}")  # names of the snapshots' folders


class Entry(msgspec.Struct, frozen=True, array_like=True):
  """Size in bytes and checksum of one file of a snapshot.

  Attributes:
    bytes: size of the file in bytes.
    crc32: CRC-32 checksum of the file; None: a TFRecord file above 64 MiB.
  """

  bytes: int
  crc32: int | None


class Manifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
  """The content of a manifest.

  Attributes:
    best: number of the run's best snapshot so far, or None without one.
    files: size and checksum of each file, by path within the snapshot.
  """

  best: int | None
  files: dict[str, Entry]


def write(folder: pathlib.Path, best: int | None = None) -> None:
  """Writes the manifest of all files in a snapshot's folder.

  Args:
    folder: the snapshot's folder, in which all other files are complete.
    best: number of the run's best snapshot so far, or None without one.

  Raises:
    OSError: the disk rejects the file.
  """
  files = {}
  for path in sorted(folder.rglob("*")):
    if path.is_file():
      size = path.stat().st_size
      is_large = path.suffix == _TFRECORD and size > _MAX_RECORDS_BYTES
      entry = Entry(size, None if is_large else _checksum(path))
      files[str(path.relative_to(folder))] = entry
  (folder / FILE).write_bytes(msgspec.json.encode(Manifest(best, files)))


def read(files: fsspec.AbstractFileSystem, folder: str) -> Manifest:
  """Returns a snapshot's manifest, after a check of the sizes of its files.

  Args:
    files: file system of the snapshot, local or remote.
    folder: absolute path of the snapshot's folder.

  Raises:
    ValueError: a file is missing or has another size; the message names it.
    OSError: the file system cannot be read.
  """
  try:
    content = files.cat_file(f"{folder}/{FILE}")
    manifest = msgspec.json.decode(content, type=Manifest)
  except (FileNotFoundError, NotADirectoryError):
    raise ValueError(f"{FILE} is missing") from None
  except ValueError as error:
    raise ValueError(
      f"{FILE} differs from what was written ({error})"
    ) from None
  found: typing.Any = files.find(folder, detail=True)
  for name, expected in manifest.files.items():
    if f"{folder}/{name}" not in found:
      raise ValueError(f"{name} is missing")
    size = found[f"{folder}/{name}"]["size"]
    if size != expected.bytes:
      raise ValueError(f"{name} has {size} bytes of {expected.bytes}")
  return manifest


def is_complete(files: fsspec.AbstractFileSystem, folder: str) -> bool:
  """Returns whether `read` accepts a snapshot; checksums are not compared."""
  try:
    read(files, folder)
  except ValueError:
    return False
  return True


def check(folder: pathlib.Path) -> Manifest:
  """Returns a local snapshot's manifest, after a check of all its files.

  Sizes are compared, and the checksums of all files that have one.

  Args:
    folder: the snapshot's folder.

  Raises:
    ValueError: a file is missing or damaged; the message names it.
    OSError: the disk cannot be read.
  """
  manifest = read(fsspec.filesystem("file"), str(folder.absolute()))
  for name, expected in manifest.files.items():
    crc32 = expected.crc32
    if crc32 is not None and _checksum(folder / name) != crc32:
      raise ValueError(f"{name} differs from what was written")
  return manifest


def list_numbers(files: fsspec.AbstractFileSystem, snapshots: str) -> list[int]:
  """Returns the numbers of a run's snapshots, the newest (highest) first.

  Args:
    files: file system of the snapshots, local or remote.
    snapshots: absolute path of the folder of all snapshots, which may be
      missing. Incomplete snapshots count, too.
  """
  files.invalidate_cache()
  try:
    paths = files.ls(snapshots, detail=False)
  except FileNotFoundError:
    return []
  names = (path.rstrip("/").rsplit("/", 1)[-1] for path in paths)
  return sorted(map(int, filter(_NUMBERED.fullmatch, names)), reverse=True)


def prune(
  files: fsspec.AbstractFileSystem,
  snapshots: str,
  keep: int,
  others: Collection[int | None],
) -> None:
  """Removes old and incomplete snapshots.

  Those that are newer than all complete ones are kept, since they may still be
  written.

  Args:
    files: file system of the snapshots, local or remote.
    snapshots: absolute path of the folder of all snapshots.
    keep: number of the newest complete snapshots to keep.
    others: numbers of further snapshots to keep.

  Raises:
    OSError: the location cannot be written.
  """
  numbers = list_numbers(files, snapshots)
  paths = {number: f"{snapshots}/{number:06d}" for number in numbers}
  complete = [number for number in numbers if is_complete(files, paths[number])]
  kept = {*complete[:keep], *others}
  for number in numbers:
    if complete and number < complete[0] and number not in kept:
      files.rm(paths[number], recursive=True)


def _checksum(path: pathlib.Path) -> int:
  """Returns the CRC-32 checksum of a file."""
  crc32 = 0
  with path.open("rb") as file:
    while block := file.read(_BLOCK_BYTES):
      crc32 = zlib.crc32(block, crc32)
  return crc32
