"""Run address: where a run's control node answers, in a file of the run."""

import contextlib
import os
import pathlib
import socket
import typing
from collections.abc import Iterator

import msgspec

from launch.runs import run_folder


class RunAddress(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
  """Who answers for a run.

  Attributes:
    address: of the control node's Courier server: 'localhost:7000'.
    pid: of its process.
    host: name of the machine that the process is on.
  """

  address: str
  pid: typing.Annotated[int, msgspec.Meta(ge=1, lt=2**31)]
  host: str

  @property
  def gone(self) -> bool:
    """Whether the process has ended; False where that can't be known."""
    if self.host != socket.gethostname():
      return False
    try:
      os.kill(self.pid, 0)
    except ProcessLookupError:
      return True
    except PermissionError:
      pass  # somebody else's process is one all the same
    return False


def path_in(folder: run_folder.RunFolder) -> pathlib.Path:
  """The file's path."""
  return folder.path / "control.json"


@contextlib.contextmanager
def published(
  folder: run_folder.RunFolder, address: str | None
) -> Iterator[None]:
  """Says in the run's folder, for as long as this lasts, who answers.

  Args:
    folder: of the run.
    address: that this process serves; None: none, and nothing is said.

  Raises:
    OSError: one line naming the file, which could not be written.
  """
  if address is None:
    yield
    return
  where = RunAddress(address, os.getpid(), socket.gethostname())
  with run_folder.replacing(path_in(folder)) as path:
    path.write_bytes(msgspec.json.encode(where) + b"\n")
  try:
    yield
  finally:
    _remove(folder, where)


def read(folder: run_folder.RunFolder) -> RunAddress | None:
  """Who answers for the run; None: the file is not there.

  Raises:
    ValueError: one line: the file is not one of `published`.
  """
  path = path_in(folder)
  try:
    return msgspec.json.decode(path.read_bytes(), type=RunAddress)
  except FileNotFoundError:
    return None
  except (OSError, ValueError, RecursionError) as error:
    said = " ".join(str(error).split())  # It may quote the file.
    raise ValueError(
      f"{str(path)!r} can't be read ({said}), so the run can't be found: "
      "remove the file, and stop the run by a signal to its launcher"
    ) from error


def _remove(folder: run_folder.RunFolder, where: RunAddress) -> None:
  """Removes the file, unless a successor has written its own by now."""
  with contextlib.suppress(ValueError):  # it is not ours
    if read(folder) == where:
      path_in(folder).unlink(missing_ok=True)
