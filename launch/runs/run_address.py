"""RunAddress: the address of a run's control node, in a file of the run."""

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
    pid: pid of the control node's process.
    host: name of the machine of that process.
  """

  address: str
  pid: typing.Annotated[int, msgspec.Meta(ge=1, lt=2**31)]
  host: str

  @property
  def is_down(self) -> bool:
    """Whether the process has ended; False if it is on another machine."""
    if self.host != socket.gethostname():
      return False
    try:
      # A zombie is still in the system's list of processes.
      return psutil.Process(self.pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
      return True


def path_in(folder: run_folder.RunFolder) -> pathlib.Path:
  """Returns the path of the file in a run's folder."""
  return folder.path / "control.json"


@contextlib.contextmanager
def published(
  folder: run_folder.RunFolder, address: str, outbox: outbox_lib.Outbox
) -> Iterator[None]:
  """Publishes this process's address in a run's folder while the block runs.

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
  """Returns the address of a run's control node, or None without a file.

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
  """Removes the file, unless a restarted control node has replaced it."""
  with contextlib.suppress(ValueError):  # another format
    if read(folder) == own:
      path_in(folder).unlink(missing_ok=True)
