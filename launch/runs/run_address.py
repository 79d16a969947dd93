"""RunAddress: the address of a run's launcher, in control.json."""

import contextlib
import os
import pathlib
import socket
import typing
from collections.abc import Iterator

import msgspec

from slipway.launch.runs import outbox, records, run_folder


class RunAddress(msgspec.Struct, frozen=True):
  """The socket, process and machine of a run's launcher.

  Attributes:
    address: path of the launcher's unix socket.
    pid: process id of the launcher.
    host: host name of the launcher's machine.
  """

  address: str
  pid: typing.Annotated[int, msgspec.Meta(ge=1, lt=2**31)]
  host: str

  @classmethod
  def of_this_process(cls, address: str) -> "RunAddress":
    """Returns the address of this process, which serves a unix socket."""
    return cls(address, os.getpid(), socket.gethostname())

  @property
  def is_local(self) -> bool:
    """Whether the launcher is on this machine, so that it can be reached."""
    return self.host == socket.gethostname()


def path_in(folder: run_folder.RunFolder) -> pathlib.Path:
  """Returns the path of the file with the address, in a run's folder."""
  return folder.path / "control.json"


@contextlib.contextmanager
def published(folder: run_folder.RunFolder, address: str) -> Iterator[None]:
  """Writes this process's address to a run's folder while the block runs.

  Args:
    folder: the run's folder, whose lock this process holds.
    address: path of the socket that this process serves.

  Raises:
    OSError: the file can't be written; see `outbox.replace`.
  """
  own = RunAddress.of_this_process(address)
  outbox.replace(path_in(folder), records.to_json(own))
  try:
    yield
  finally:
    path_in(folder).unlink(missing_ok=True)


def read(folder: run_folder.RunFolder) -> RunAddress | None:
  """Reads the address of a run's launcher, or returns None without a file.

  Raises:
    ValueError: the file can't be read, or has another format.
  """
  try:
    return records.read(
      path_in(folder),
      RunAddress,
      ", so the run can't be found: remove the file, and stop the run by a "
      "signal to its launcher",
    )
  except FileNotFoundError:
    return None
