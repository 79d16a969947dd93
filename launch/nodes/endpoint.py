"""Endpoint: where a service is reached now, in a file of a machine."""

import os
import pathlib

from slipway.launch.runs import run_folder


def path_in(folder: str | os.PathLike[str], service: str) -> pathlib.Path:
  """The file of a service in a machine's folder of the run."""
  return pathlib.Path(folder, f"{service}.endpoint")


class Endpoint:
  """An address that one process writes and any of its machine reads.

  What it is the address of may move to another machine while others use it.
  """

  def __init__(self, path: str | os.PathLike[str]):
    """Opens nothing.

    Args:
      path: of the file, which need not exist yet.
    """
    self._path = pathlib.Path(path)

  def read(self) -> str | None:
    """'host:port'; None: it is not known yet."""
    try:
      return self._path.read_text("ascii") or None
    except FileNotFoundError:
      return None

  def write(self, address: str) -> None:
    """Replaces the address, at once."""
    with run_folder.replacing(self._path) as beside:
      beside.write_text(address, "ascii")
