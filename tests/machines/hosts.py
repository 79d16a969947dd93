"""Hosts with a kernel's walls between them, on one machine, for tests.

    network = hosts.Network(tmp_path)
    try:
      left, right = network.add("left"), network.add("right")
      left.run(["getent", "hosts", "right"])
    finally:
      network.close()

A host is a set of namespaces: network, pid, mount, ipc and name are its own,
with a /tmp and a /dev/shm that nobody else sees. Its memory, CPUs and the rest
of the file system are the machine's, so the repository is at the same path.
Each hangs by a cable on a switch, which is a bridge in one more network
namespace: the machine's own network sees nothing of it, and any number of
networks run side by side with the same addresses.

All of it hangs on pipes of this process: however that ends, the kernel ends
the hosts with what runs in them, and their cables with them.
"""

import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence

import psutil

from tests.machines import host_process

_ROOT = pathlib.Path(__file__).resolve().parents[2]
_INIT = pathlib.Path(__file__).with_name("host_init.sh")
_RANGE = "10.77.0"
_PACKAGES = {"ip": "iproute2", "unshare": "util-linux", "nsenter": "util-linux"}
_UNSHARE = (
  ("unshare", "--mount", "--uts", "--ipc", "--net", "--pid", "--fork")
  + ("--kill-child", "--mount-proc")
)  # fmt: skip


def why_not() -> str | None:
  """Says in one line why this machine can hold no hosts; None if it can."""
  if os.geteuid() != 0:
    return "hosts are made of namespaces: run these tests as root"
  for program, package in _PACKAGES.items():
    if not shutil.which(program):
      return f"hosts need `{program}`: apt-get install {package}"
  tried = subprocess.run(
    [*_UNSHARE, "sh", "-c"]
    + ["mount -t tmpfs none /tmp && ip link add switch type bridge"],
    capture_output=True,
    text=True,
    timeout=30,
    check=False,
  )
  if tried.returncode == 0:
    return None
  return (
    "hosts are made of namespaces and bridges, which are not allowed here: "
    + " ".join(tried.stderr.split())
  )


def wait_until(condition: Callable[[], object], timeout_s: float) -> float:
  """Waits for `condition()` to be true; returns the seconds that took."""
  start = time.monotonic()
  while not condition():
    assert time.monotonic() - start < timeout_s, f"not within {timeout_s} s"
    time.sleep(0.05)
  return time.monotonic() - start


class Network:
  """A switch, and the hosts on it.

  Attributes:
    folder: what hosts see of it at the same path, as if by NFS, is `shared`.
    shared: a folder that all hosts but strangers have at this same path.
    hosts: all that were added, dead ones too.
  """

  def __init__(self, folder: pathlib.Path):
    """Sets the switch up.

    Args:
      folder: of the test; must not have been used by a network before.
    """
    self.hosts: list[Host] = []
    self.folder = folder / "network"
    self.shared = self.folder / "shared"
    self.shared.mkdir(parents=True)
    self._names = self.folder / "hosts"
    self._names.write_text("127.0.0.1 localhost\n")
    self._switch = subprocess.Popen(
      ["unshare", "--net", "sh", "-c", "echo ready && exec cat"],
      stdin=subprocess.PIPE,
      stdout=subprocess.PIPE,
      stderr=subprocess.PIPE,
      start_new_session=True,
    )
    _wait_until_ready(self._switch)
    self.ip("link", "add", "switch", "type", "bridge")
    self.ip("link", "set", "switch", "up")

  def add(self, name: str, shared: bool = True) -> "Host":
    """Starts a host, and connects it.

    Args:
      name: of the host: its own hostname, by which the others find it too.
      shared: whether it has the shared folder; a stranger has not.

    Raises:
      RuntimeError: if it did not come up.
    """
    host = Host(self, name, f"{_RANGE}.{len(self.hosts) + 1}", shared)
    self.hosts.append(host)
    with self._names.open("a") as names:
      names.write(f"{host.address} {name}\n")
    return host

  def ip(self, *arguments: str) -> None:
    """Runs iproute2's `ip` on the switch."""
    _run_ip(self._switch.pid, *arguments)

  def close(self) -> None:
    """Ends all hosts, whatever runs on them, and the switch."""
    for host in self.hosts:
      host.close()
    self._switch.kill()
    self._switch.communicate()


class Host:
  """A machine of its own, as far as the processes on it can tell.

  Attributes:
    name: its hostname.
    address: IPv4, on the network.
  """

  def __init__(self, network: Network, name: str, address: str, shared: bool):
    """Starts it: see Network.add."""
    self.name = name
    self.address = address
    self._network = network
    self._cable = f"cable{address.rpartition('.')[2]}"
    self._started: list[host_process.HostProcess] = []
    seen = {str(_ROOT), str(pathlib.Path(sys.prefix).resolve())}
    self._unshare = subprocess.Popen(
      [*_UNSHARE, "sh", str(_INIT), name, str(network.folder)]
      + ["yes" if shared else "no", *seen],
      stdin=subprocess.PIPE,
      stdout=subprocess.PIPE,
      stderr=subprocess.PIPE,
      start_new_session=True,
    )
    _wait_until_ready(self._unshare)
    (init,) = psutil.Process(self._unshare.pid).children()
    self._init = init.pid
    self._pids = _pid_namespace(self._init)
    self._connect()

  def _connect(self) -> None:
    self._network.ip(
      *("link", "add", self._cable, "type", "veth"),
      *("peer", "name", "eth0", "netns", str(self._init)),
    )
    self._network.ip("link", "set", self._cable, "master", "switch", "up")
    _run_ip(self._init, "link", "set", "lo", "up")
    _run_ip(self._init, "addr", "add", f"{self.address}/24", "dev", "eth0")
    _run_ip(self._init, "link", "set", "eth0", "up")

  def start(
    self,
    argv: Sequence[str],
    stdout: pathlib.Path | None = None,
    env: dict[str, str] | None = None,
  ) -> host_process.HostProcess:
    """Starts a program on the host, in the repository's folder.

    Args:
      argv: the program and its arguments.
      stdout: the file to append to what it says, stderr too; None: discarded.
      env: variables beside those of this process; its HOME is the host's.
    """
    with open(stdout or os.devnull, "ab") as said:
      return self._start(argv, env, said, subprocess.STDOUT)

  def run(
    self,
    argv: Sequence[str],
    env: dict[str, str] | None = None,
    timeout_s: float = 60.0,
    check: bool = True,
  ) -> subprocess.CompletedProcess:
    """Runs a program on the host to its end, in the repository's folder.

    Args:
      argv: the program and its arguments.
      env: variables beside those of this process; its HOME is the host's.
      timeout_s: seconds after which it is killed.
      check: whether a status other than 0 is an error.

    Returns:
      Its status and what it said, as text.

    Raises:
      subprocess.SubprocessError: if it failed or took too long.
    """
    # Files, as a pipe would only end with the daemons that it leaves.
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
      process = self._start(argv, env, out, err)
      try:
        status = process.wait(timeout_s)
      finally:
        process.kill()
        said = []
        for file in (out, err):
          file.seek(0)
          said.append(file.read().decode(errors="replace"))
    run = subprocess.CompletedProcess(argv, status, *said)
    if check and status:
      raise subprocess.CalledProcessError(status, argv, *said)
    return run

  def _start(self, argv, env, stdout, stderr) -> host_process.HostProcess:
    inherited = {k: v for k, v in os.environ.items() if k != "TMPDIR"}
    process = host_process.HostProcess(
      self._init,
      argv,
      {**inherited, "HOME": "/tmp", **(env or {})},
      stdout,
      stderr,
      _ROOT,
    )
    self._started.append(process)
    return process

  def processes(self, words: str = "") -> list[psutil.Process]:
    """Those alive on the host, but its pid 1; pids are those of this side.

    Args:
      words: to be in the command line of each.
    """
    return [p for p in psutil.process_iter() if self._has(p, words)]

  def _has(self, process: psutil.Process, words: str) -> bool:
    try:
      return (
        process.pid != self._init
        and _pid_namespace(process.pid) == self._pids
        and process.status() != psutil.STATUS_ZOMBIE
        and words in " ".join(process.cmdline())
      )
    except (psutil.Error, OSError):
      return False  # It has just ended.

  def cut(self) -> None:
    """Pulls the cable: what is sent is lost, and nobody is told."""
    self._network.ip("link", "set", self._cable, "down")

  def mend(self) -> None:
    """Plugs the cable in again."""
    self._network.ip("link", "set", self._cable, "up")

  def kill(self) -> None:
    """Kills pid 1, and with it all processes.

    The kernel still closes their connections, as when a container is killed.
    When power is lost nobody does: `cut()` first.
    """
    if self._unshare.poll() is None:
      os.kill(self._init, signal.SIGKILL)
    self._unshare.wait()
    for process in self._started:
      process.wait()

  def close(self) -> None:
    """Ends the host, if it is still up."""
    self.kill()
    # unshare complains of a child that was killed: that is read and dropped.
    self._unshare.communicate()


def _wait_until_ready(process: subprocess.Popen) -> None:
  said = process.stdout
  if not said or said.readline() != b"ready\n":
    _, why = process.communicate()
    raise RuntimeError(f"a host did not start: {why.decode().strip()}")


def _pid_namespace(pid: int) -> str:
  return os.readlink(f"/proc/{pid}/ns/pid")


def _run_ip(pid: int, *arguments: str) -> None:
  """Runs `ip` in the network namespace of a process."""
  subprocess.run(
    ["nsenter", f"--target={pid}", "--net", "ip", *arguments], check=True
  )
