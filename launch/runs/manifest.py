"""Manifest: what a snapshot consists of, by which damage is found."""

import json
import os
import pathlib
import typing
import zlib

FILE = "manifest.json"  # in the folder of a snapshot

# Of larger files only the size is checked: a restart must not read gigabytes
# twice, and what large files there are (TFRecords) carry checksums themselves.
_CHECKSUM_BYTES = 1 << 26
_READ_BYTES = 1 << 20


class Manifest(typing.NamedTuple):
  """All files of a snapshot."""

  step: int  # that its writer gave
  files: dict[str, dict[str, typing.Any]]  # by path: bytes and crc32, or None


def write(folder: pathlib.Path, step: int) -> None:
  """Syncs all that is in a folder, and then a list of it.

  Args:
    folder: of a snapshot that is complete otherwise.
    step: kept with it.

  Raises:
    OSError: the disk refuses.
  """
  files = {}
  for path in sorted(folder.rglob("*")):
    if path.is_file():
      size = path.stat().st_size
      checksum = _checksum(path) if size <= _CHECKSUM_BYTES else None
      files[str(path.relative_to(folder))] = {"bytes": size, "crc32": checksum}
  content = {"step": step, "files": files}
  text = json.dumps(content, sort_keys=True)
  # The manifest's own checksum stands in its second line.
  sync_below(folder)
  (folder / FILE).write_text(f"{text}\n{zlib.crc32(text.encode())}")
  sync(folder / FILE)
  sync(folder)


def parse(text: str) -> Manifest:
  """Returns what was written.

  Raises:
    ValueError: the text is another one; in a few words.
  """
  try:
    content, checksum = text.splitlines()
  except ValueError:
    raise ValueError(f"{FILE} is no longer what was written") from None
  if checksum != str(zlib.crc32(content.encode())):
    raise ValueError(f"{FILE} is no longer what was written")
  return Manifest(**json.loads(content))


def check(folder: pathlib.Path) -> int:
  """Compares a folder with its manifest; returns the step.

  Raises:
    ValueError: what is wrong, in a few words.
  """
  manifest = _read(folder)
  for name, expected in manifest.files.items():
    path = folder / name
    if not path.is_file():
      raise ValueError(f"{name} is missing")
    size = path.stat().st_size
    if size != expected["bytes"]:
      raise ValueError(f"{name} has {size} bytes of {expected['bytes']}")
    if expected["crc32"] is not None and _checksum(path) != expected["crc32"]:
      raise ValueError(f"{name} is no longer what was written")
  return manifest.step


def has_sizes(folder: pathlib.Path) -> bool:
  """Whether all files are there with their sizes, which is quickly said."""
  try:
    return all(
      (folder / name).stat().st_size == expected["bytes"]
      for name, expected in _read(folder).files.items()
    )
  except (OSError, ValueError):
    return False


def sync_below(folder: pathlib.Path) -> None:
  """Brings all that is in a folder to the disk."""
  for path in folder.rglob("*"):
    sync(path)


def sync(path: pathlib.Path) -> None:
  """Brings a file or folder to the disk, before anything says it is there."""
  descriptor = os.open(path, os.O_RDONLY)
  try:
    os.fsync(descriptor)
  finally:
    os.close(descriptor)


def _read(folder: pathlib.Path) -> Manifest:
  try:
    return parse((folder / FILE).read_text())
  except FileNotFoundError:
    raise ValueError(f"it has no {FILE}") from None
  except UnicodeDecodeError:
    raise ValueError(f"{FILE} is no longer what was written") from None


def _checksum(path: pathlib.Path) -> int:
  checksum = 0
  with path.open("rb") as file:
    while block := file.read(_READ_BYTES):
      checksum = zlib.crc32(block, checksum)
  return checksum
