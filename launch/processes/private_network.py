"""Private network: a network namespace whose ports other users can't reach.

Reverb serves every process that can connect to its port, without a password.
Each network namespace (network_namespaces(7)) has a separate loopback
interface. Only processes in the same namespace can connect to a port there.
Other processes of the run get connections from
`slipway.replay.transport.socket_passing`.

A user namespace (user_namespaces(7)) gives an ordinary user the right to make a
network namespace. Some kernels and containers forbid that, even to root.
"""

import contextlib
import ctypes
import dataclasses
import fcntl
import os
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator

# Flags of unshare(2) and setns(2) for user and network namespaces, which Python
# 3.10 lacks.
_CLONE_NEWUSER, _CLONE_NEWNET = 0x1000_0000, 0x4000_0000
# Requests of netdevice(7) that get and set an interface's flags, and the flag
# of an active interface.
_SIOCGIFFLAGS, _SIOCSIFFLAGS, _IFF_UP = 0x8913, 0x8914, 0x1
# Seconds that the process that has made the namespaces may take to end.
_CREATE_TIMEOUT_S = 10.0
# Flag of setns(2) for each kind of namespace, by its name in /proc/PID/ns.
_SETNS_FLAGS = {"user": _CLONE_NEWUSER, "net": _CLONE_NEWNET}


@dataclasses.dataclass(frozen=True)
class PrivateNetwork:
  """The Linux namespaces of a run's private network on one machine.

  Attributes:
    namespaces: kind ('user' or 'net') and path of each namespace, in the order
      in which a process must enter the namespaces. The paths are valid during
      the context of `create`.
  """

  namespaces: tuple[tuple[str, str], ...]

  def enter(self) -> None:
    """Moves this process permanently into the private network.

    Raises:
      OSError: the kernel rejects the process, for example because the process
        has several threads.
    """
    with contextlib.ExitStack() as held:
      # All files are opened first, because a process that has entered a user
      # namespace can't open namespaces outside of it.
      files = [
        (kind, held.enter_context(open(path, "rb")))
        for kind, path in self.namespaces
      ]
      for kind, file in files:
        _call_libc("setns", file.fileno(), _SETNS_FLAGS[kind])


@contextlib.contextmanager
def create() -> Iterator[PrivateNetwork]:
  """Yields a new private network, which exists until the context ends.

  Raises:
    OSError: the kernel does not allow this user to make a private network.
  """
  # A process with several threads cannot enter a user namespace, and no process
  # can leave one. So a temporary process, which runs this file, makes them.
  with (
    subprocess.Popen(
      [sys.executable, "-I", "-S", __file__],
      stdin=subprocess.PIPE,
      stdout=subprocess.PIPE,
      start_new_session=True,  # a terminal's signals do not reach it
      text=True,
    ) as maker,
    contextlib.ExitStack() as held,
  ):
    outcome, _, detail = maker.stdout.readline().strip().partition(" ")  # type: ignore
    if outcome != "made":
      raise OSError(detail or "the process that should make it was killed")
    files = [
      (kind, held.enter_context(open(f"/proc/{maker.pid}/ns/{kind}", "rb")))
      for kind in detail.split()
    ]
    maker.stdin.close()  # type: ignore
    maker.wait(_CREATE_TIMEOUT_S)
    yield PrivateNetwork(
      tuple(
        (kind, f"/proc/{os.getpid()}/fd/{file.fileno()}")
        for kind, file in files
      )
    )


def _enter_new_namespaces() -> list[str]:
  """Moves this process into a new network namespace with a loopback."""
  # If this user has no right to make a network namespace, a new user namespace
  # is made first, which gives that right.
  try:
    _call_libc("unshare", _CLONE_NEWNET)
    kinds = ["net"]
  except PermissionError:
    user, group = os.geteuid(), os.getegid()
    _call_libc("unshare", _CLONE_NEWUSER | _CLONE_NEWNET)
    # User and group keep their ids, so files keep their owner.
    for name, text in (
      ("setgroups", "deny"),
      ("uid_map", f"{user} {user} 1"),
      ("gid_map", f"{group} {group} 1"),
    ):
      with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
        file.write(text)
    kinds = ["user", "net"]
  with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
    # The struct `ifreq` of netdevice(7): the interface's name, then its flags.
    request = struct.pack("16sH14x", b"lo", 0)
    reply = fcntl.ioctl(control, _SIOCGIFFLAGS, request)
    (flags,) = struct.unpack_from("H", reply, 16)
    request = struct.pack("16sH14x", b"lo", flags | _IFF_UP)
    fcntl.ioctl(control, _SIOCSIFFLAGS, request)
  return kinds


def _call_libc(name: str, *arguments: int) -> None:
  """Calls a function of the C library, for which Python 3.11 has no wrapper."""
  if getattr(ctypes.CDLL(None, use_errno=True), name)(*arguments):
    error = ctypes.get_errno()
    raise OSError(error, f"{name}: {os.strerror(error)}")


if __name__ == "__main__":
  try:
    print("made", *_enter_new_namespaces(), flush=True)
    sys.stdin.read()  # until the parent has opened the namespaces
  except BrokenPipeError:
    os._exit(1)  # the parent was killed, so no process reads the output
  except OSError as failure:
    print("failed", failure.strerror or failure, flush=True)
