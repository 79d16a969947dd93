"""Hosts: isolated from each other by the kernel, on one machine, for tests.

    network = hosts.Network(tmp_path)
    try:
      left, right = network.add("left"), network.add("right")
      left.run(["getent", "hosts", "right"])
    finally:
      network.close()

A host is a set of namespaces. It has its own network, PIDs, mounts, IPC and
hostname, and a private /tmp and /dev/shm. Memory, CPUs and the rest of the file
system are the machine's, so the repository has the same path. A cable connects
each host to a switch, which is a bridge in another network namespace. The
machine's own network is not affected, and any number of networks can use the
same addresses at the same time.

Hosts and switch depend on pipes of this process. When the process ends, for
whatever reason, the kernel ends the hosts, their processes and their cables.
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


def find_obstacle() -> str | None:
  """Returns a line why this machine can't have hosts, or None if it can."""
  if os.geteuid() != 0:
    return "hosts are made of namespaces: run these tests as root"
  for program, package in _PACKAGES.items():
    if not shutil.which(program):
      return f"hosts need `{program}`: apt-get install {package}"
  attempt = subprocess.run(
    [*_UNSHARE, "sh", "-c"]
    + ["mount -t tmpfs none /tmp && ip link add switch type bridge"],
    capture_output=True,
    text=True,
    timeout=30,
    check=False,
  )
  if attempt.returncode == 0:
    return None
  return (
    "hosts are made of namespaces and bridges, which are not allowed here: "
    + " ".join(attempt.stderr.split())
  )


def wait_until(condition: Callable[[], object], timeout_s: float) -> float:
  """Waits until `condition()` is true; returns the seconds that it took."""
  start = time.monotonic()
  while not condition():
    assert time.monotonic() - start < timeout_s, f"not within {timeout_s} s"
    time.sleep(0.05)
  return time.monotonic() - start


class Network:
  """A switch, and the hosts that are connected to it.

  Attributes:
    folder: folder with the network's files; of these, hosts only see `shared`.
    shared: folder that hosts share at the same path, like a folder in NFS.
    hosts: all hosts that were added, including dead ones.
  """

  def __init__(self, folder: pathlib.Path):
    """Starts the switch.

    Args:
      folder: folder of the test, which no other network may use.
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
    """Starts a host, and connects it to the switch.

    Args:
      name: hostname, which the other hosts can resolve.
      shared: whether the host has the shared folder, and so the token in it.

    Raises:
      RuntimeError: the host did not start.
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
    """Ends all hosts with their processes, and the switch."""
    for host in self.hosts:
      host.close()
    self._switch.kill()
    self._switch.communicate()


class Host:
  """A set of namespaces that is a separate machine for its processes.

  Attributes:
    name: hostname.
    address: IPv4 address on the network.
  """

  def __init__(self, network: Network, name: str, address: str, shared: bool):
    """Starts the host; called by `Network.add`."""
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
      stdout: file to which standard output and standard error are appended;
        None discards them.
      env: variables in addition to those of this process; HOME is the host's.
    """
    with open(stdout or os.devnull, "ab") as output:
      return self._start(argv, env, output, subprocess.STDOUT)

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
      env: variables in addition to those of this process; HOME is the host's.
      timeout_s: seconds after which the program is killed.
      check: whether a status other than 0 is an error.

    Returns:
      The exit status and the output as text.

    Raises:
      subprocess.SubprocessError: the program failed or took too long.
    """
    # The output goes to files: a pipe would stay open until all daemons that
    # the program starts have ended.
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
      process = self._start(argv, env, out, err)
      try:
        status = process.wait(timeout_s)
      finally:
        process.kill()
        output = []
        for file in (out, err):
          file.seek(0)
          output.append(file.read().decode(errors="replace"))
    run = subprocess.CompletedProcess(argv, status, *output)
    if check and status:
      raise subprocess.CalledProcessError(status, argv, *output)
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
    """Returns the live processes on the host, except for its pid 1.

    Process IDs are those in the test's PID namespace.

    Args:
      words: text that must be in the command line of each process.
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
      return False  # the process has just ended

  def cut(self) -> None:
    """Unplugs the cable: packets are lost, and connections stay open."""
    self._network.ip("link", "set", self._cable, "down")

  def reconnect(self) -> None:
    """Plugs the cable in again."""
    self._network.ip("link", "set", self._cable, "up")

  def kill(self) -> None:
    """Kills pid 1, and with it all processes of the host.

    The kernel still closes their connections, as when a container is killed. To
    simulate a loss of power, call `cut()` first.
    """
    if self._unshare.poll() is None:
      os.kill(self._init, signal.SIGKILL)
    self._unshare.wait()
    for process in self._started:
      process.wait()

  def close(self) -> None:
    """Ends the host, if it is still up."""
    self.kill()
    # unshare prints an error about its killed child, which is discarded.
    self._unshare.communicate()


def _wait_until_ready(process: subprocess.Popen) -> None:
  output = process.stdout
  if not output or output.readline() != b"ready\n":
    _, error = process.communicate()
    raise RuntimeError(f"a host did not start: {error.decode().strip()}")


def _pid_namespace(pid: int) -> str:
  return os.readlink(f"/proc/{pid}/ns/pid")


def _run_ip(pid: int, *arguments: str) -> None:
  """Runs `ip` in the network namespace of a process."""
  subprocess.run(
    ["nsenter", f"--target={pid}", "--net", "ip", *arguments], check=True
  )
