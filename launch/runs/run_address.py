"""RunAddress: the address of a run's control node, in control.json."""

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
  """The socket, process and machine of a run's control node.

  Attributes:
    address: path of the control node's unix socket.
    pid: process id of the control node.
    host: host name of the control node's machine.
  """

  address: str
  pid: typing.Annotated[int, msgspec.Meta(ge=1, lt=2**31)]
  host: str

  @property
  def is_down(self) -> bool:
    """Whether the control node has ended; False if on another machine.

    A process on another machine can't be checked.
    """
    if self.host != socket.gethostname():
      return False
    try:
      # A zombie is still in the system's list of processes.
      return psutil.Process(self.pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
      return True


def path_in(folder: run_folder.RunFolder) -> pathlib.Path:
  """Returns the path of the file with the address, in a run's folder."""
  return folder.path / "control.json"


@contextlib.contextmanager
def published(
  folder: run_folder.RunFolder, address: str, outbox: outbox_lib.Outbox
) -> Iterator[None]:
  """Writes this process's address to a run's folder while the block runs.

  The file is removed after the block.

  Args:
    folder: the run's folder.
    address: path of the socket that this process serves.
    outbox: the outbox that writes the file.

  Raises:
    OSError: the file can't be written; see `Outbox.replace`.
  """
  own = RunAddress(address, os.getpid(), socket.gethostname())
  outbox.replace(path_in(folder), msgspec.json.encode(own) + b"\n")
  try:
    yield
  finally:
    _remove_address(folder, own)


def read(folder: run_folder.RunFolder) -> RunAddress | None:
  """Reads the address of a run's control node, or returns None without a file.

  Args:
    folder: the run's folder.

  Raises:
    ValueError: the file can't be read, or has another format.
  """
  path = path_in(folder)
  try:
    return msgspec.json.decode(path.read_bytes(), type=RunAddress)
  except FileNotFoundError:
    return None
  except (OSError, ValueError, RecursionError) as error:
    text = " ".join(str(error).split())  # its lines are joined
    raise ValueError(
      f"{str(path)!r} can't be read ({text}), so the run can't be found: "
      "remove the file, and stop the run by a signal to its launcher"
    ) from error


def _remove_address(folder: run_folder.RunFolder, own: RunAddress) -> None:
  """Removes the file with the address, unless its content has changed.

  A restarted control node may already have replaced the file.

  Args:
    folder: the run's folder.
    own: address that this process has written.
  """
  with contextlib.suppress(ValueError):  # another format
    if read(folder) == own:
      path_in(folder).unlink(missing_ok=True)
