"""RunAddress: the address of a run's launcher, in control.json."""

import contextlib
import os
import pathlib
import socket
import tempfile
import threading
import typing
from collections.abc import Iterator

import msgspec

from slipway.launch.runs import error_text, run_folder
from slipway.launch.runs import outbox as outbox_lib

# Seconds between two renewals of the file with the address.
_RENEWAL_PERIOD_S = 2.0


class RunAddress(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
  """The socket, process and machine of a run's launcher.

  Attributes:
    address: path of the launcher's unix socket.
    pid: process id of the launcher.
    host: host name of the launcher's machine.
    pid_space: name of the boot and the pid namespace in which `pid` is valid.
    started: start of the process in clock ticks since that boot.
    folder: inode of the run's folder, or 0 if it is unknown.
  """

  address: str
  pid: typing.Annotated[int, msgspec.Meta(ge=1, lt=2**31)]
  host: str
  pid_space: str
  started: int
  folder: int = 0

  @classmethod
  def from_process(cls, address: str, pid: int) -> "RunAddress":
    """Returns the address of a launcher on this machine.

    Args:
      address: path of the launcher's unix socket.
      pid: process id of the launcher.

    Raises:
      ProcessLookupError: there is no such process.
    """
    started = _read_start(pid)
    if started is None:
      raise ProcessLookupError(f"process {pid} does not run")
    return cls(address, pid, socket.gethostname(), _read_pid_space(), started)

  @property
  def is_local(self) -> bool:
    """Whether this process can check the launcher's process.

    It can't on another machine or in another container, nor after a reboot,
    since another machine may have the same host name.
    """
    return self.pid_space == _read_pid_space()

  @property
  def is_down(self) -> bool:
    """Whether the launcher has ended; False if it can't be checked.

    A process to which the system has given the same pid later is another one.
    """
    return self.is_local and _read_start(self.pid) != self.started


def path_in(folder: run_folder.RunFolder) -> pathlib.Path:
  """Returns the path of the file with the address, in a run's folder."""
  return folder.path / "control.json"


@contextlib.contextmanager
def published(
  folder: run_folder.RunFolder, address: str, outbox: outbox_lib.Outbox
) -> Iterator[None]:
  """Writes this process's address to a run's folder while the block runs.

  A background thread sets the file's modification time every 2 s, which shows
  other machines that the run is active. The file is removed after the block.

  Args:
    folder: the run's folder.
    address: path of the socket that this process serves.
    outbox: the outbox that writes the file.

  Raises:
    OSError: the file can't be written; see `Outbox.replace`.
  """
  own = msgspec.structs.replace(
    RunAddress.from_process(address, os.getpid()),
    folder=folder.path.stat().st_ino,
  )
  outbox.replace(path_in(folder), msgspec.json.encode(own) + b"\n")
  ended = threading.Event()
  threading.Thread(
    target=_renew, args=(path_in(folder), ended), name="renewal", daemon=True
  ).start()
  try:
    yield
  finally:
    ended.set()
    _remove_address(folder, own)


def read(folder: run_folder.RunFolder) -> RunAddress | None:
  """Reads the address of a run's launcher, or returns None without a file.

  The result is also None in a copy of an active run's folder, whose address is
  that of the original. Another machine may see other inodes, so only addresses
  on this one are compared.

  Args:
    folder: the run's folder.

  Raises:
    ValueError: the file can't be read, or has another format.
  """
  path = path_in(folder)
  try:
    address = msgspec.json.decode(path.read_bytes(), type=RunAddress)
    is_copy = address.folder not in (0, folder.path.stat().st_ino)
    return None if address.is_local and is_copy else address
  except FileNotFoundError:
    return None
  except (OSError, ValueError, RecursionError) as error:
    text = error_text.one_line(error)
    raise ValueError(
      f"{str(path)!r} can't be read ({text}), so the run can't be found: "
      "remove the file, and stop the run by a signal to its launcher"
    ) from error


def read_age_s(folder: run_folder.RunFolder) -> float:
  """Returns the seconds since the address was renewed.

  Both times are of the clock of the folder's server: machines' clocks differ.

  Args:
    folder: the run's folder.

  Raises:
    OSError: the folder can't be written to.
  """
  with tempfile.TemporaryFile(dir=folder.path) as file:
    now_ns = os.fstat(file.fileno()).st_mtime_ns
  return (now_ns - read_renewal_ns(folder)) / 1e9


def read_renewal_ns(folder: run_folder.RunFolder) -> int:
  """Returns when the address was renewed, or 0 without a file.

  The time is that of the folder's server, so it may only be compared with other
  times of files in the folder.

  Args:
    folder: the run's folder.
  """
  try:
    # A network file system reads the time again when a file is opened.
    with path_in(folder).open("rb") as file:
      return os.fstat(file.fileno()).st_mtime_ns
  except OSError:
    return 0


def _renew(path: pathlib.Path, ended: threading.Event) -> None:
  """Sets a file's modification time regularly until `ended` is set."""
  while not ended.wait(_RENEWAL_PERIOD_S):
    with contextlib.suppress(OSError):  # of a full disk or a lost server
      os.utime(path)


def _read_pid_space() -> str:
  """Returns a name of this boot of the kernel and this pid namespace."""
  boot = pathlib.Path("/proc/sys/kernel/random/boot_id").read_text("ascii")
  return f"{boot.strip()} {os.readlink('/proc/self/ns/pid')}"


def _read_start(pid: int) -> int | None:
  """Returns a process's start in clock ticks since the boot.

  Args:
    pid: process id.

  Returns:
    The start, or None if the process has ended. A zombie has ended: it is only
    an entry in the system's list of processes.
  """
  try:
    stat = pathlib.Path(f"/proc/{pid}/stat").read_text("utf-8", "replace")
  except (FileNotFoundError, ProcessLookupError):
    return None
  # The name of the program, in parentheses, may contain spaces and parentheses.
  state, *fields = stat.rpartition(")")[2].split()
  return None if state in "ZX" else int(fields[18])


def _remove_address(folder: run_folder.RunFolder, own: RunAddress) -> None:
  """Removes the file with the address, unless its content has changed.

  The launcher of a resume may already have replaced the file.

  Args:
    folder: the run's folder.
    own: address that this process has written.
  """
  with contextlib.suppress(ValueError):  # another format
    if read(folder) == own:
      path_in(folder).unlink(missing_ok=True)
