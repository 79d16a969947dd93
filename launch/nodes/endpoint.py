"""Endpoint: a file with the current 'host:port' of a service of a run."""

import os
import pathlib

from slipway.launch.runs import run_folder


def path_in(folder: str | os.PathLike[str], service: str) -> pathlib.Path:
  """Returns the path of a service's endpoint file.

  Args:
    folder: folder of all endpoint files, the run's tmpfs directory.
    service: name of the service, such as 'control' or 'replay'.
  """
  return pathlib.Path(folder, f"{service}.endpoint")


class Endpoint:
  """A file with a service's address, written by one process and read by others.

  If the service moves to another machine, the writer replaces the address. The
  readers then connect to the new address.
  """

  def __init__(self, path: str | os.PathLike[str]):
    """Stores the path without accessing the file.

    Args:
      path: path of the file, which may be missing.
    """
    self._path = pathlib.Path(path)

  def read(self) -> str | None:
    """Returns the service's 'host:port', or None before the first `write`."""
    try:
      return self._path.read_text("ascii") or None
    except FileNotFoundError:
      return None

  def write(self, address: str) -> None:
    """Replaces the file's address atomically.

    Args:
      address: the service's current 'host:port'.
    """
    with run_folder.replacing(self._path) as temporary:
      temporary.write_text(address, "ascii")
