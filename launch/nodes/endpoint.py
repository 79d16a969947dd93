"""Endpoint: a file with the current address of a service."""

import os
import pathlib

from slipway.launch.runs import run_folder


def path_in(folder: str | os.PathLike[str], service: str) -> pathlib.Path:
  """Returns the path of a service's endpoint file in a folder."""
  return pathlib.Path(folder, f"{service}.endpoint")


class Endpoint:
  """A file with an address, written by one process and read by others.

  If the service moves to another machine, the writer replaces the address, and
  the readers connect to the new one.
  """

  def __init__(self, path: str | os.PathLike[str]):
    """Names the file, without opening it.

    Args:
      path: the file's path; the file may be missing.
    """
    self._path = pathlib.Path(path)

  def read(self) -> str | None:
    """Returns 'host:port', or None if the address is not known yet."""
    try:
      return self._path.read_text("ascii") or None
    except FileNotFoundError:
      return None

  def write(self, address: str) -> None:
    """Replaces the address atomically."""
    with run_folder.replacing(self._path) as temporary:
      temporary.write_text(address, "ascii")
