"""Endpoint: a file with the current 'host:port' of a service of a run.

One process writes it, and others read it. If the service moves to another
machine, the writer replaces the address, and the readers then connect to the
new one.
"""

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


def read(path: pathlib.Path) -> str | None:
  """Returns a service's 'host:port', or None before the first `write`."""
  try:
    return path.read_text("ascii") or None
  except FileNotFoundError:
    return None


def write(path: pathlib.Path, address: str) -> None:
  """Replaces the 'host:port' in an endpoint file atomically."""
  with run_folder.replacing(path) as temporary:
    temporary.write_text(address, "ascii")
