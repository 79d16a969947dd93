"""Run address: where a run's control node answers, in a file of the run."""

import contextlib
import os
import pathlib
import socket
import typing
from collections.abc import Iterator

import msgspec
import psutil

from slipway.launch.runs import outbox as outbox_lib
from slipway.launch.runs import run_folder


class RunAddress(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
  """Who answers for a run.

  Attributes:
    address: path of the control node's unix socket.
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
      # One that no process has reaped yet is still in the system's list.
      return psutil.Process(self.pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
      return True


def path_in(folder: run_folder.RunFolder) -> pathlib.Path:
  """The file's path."""
  return folder.path / "control.json"


@contextlib.contextmanager
def published(
  folder: run_folder.RunFolder, address: str, outbox: outbox_lib.Outbox
) -> Iterator[None]:
  """Says in the run's folder, for as long as this lasts, who answers.

  Args:
    folder: of the run.
    address: of the socket that this process serves.
    outbox: which writes the file.

  Raises:
    OSError: as `Outbox.replace`.
  """
  where = RunAddress(address, os.getpid(), socket.gethostname())
  outbox.replace(path_in(folder), msgspec.json.encode(where) + b"\n")
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
