"""Two test hosts: network namespaces that a virtual cable connects."""

import contextlib
import subprocess
import sys
import uuid
from collections.abc import Iterator
from typing import NamedTuple

import pytest


class Host(NamedTuple):
  """Network namespace with one address, which the other host can reach."""

  namespace: str
  address: str
  mac: str

  def ip(self, *args: str) -> None:
    """Runs a command of `ip` in the namespace."""
    _ip("-n", self.namespace, *args)

  def start(self, script: str, *args: object) -> subprocess.Popen:
    """Starts Python code in the namespace, with pipes for text lines."""
    return subprocess.Popen(
      ["ip", "netns", "exec", self.namespace, sys.executable, "-c", script]
      + [str(arg) for arg in args],
      stdin=subprocess.PIPE,
      stdout=subprocess.PIPE,
      text=True,
    )


@contextlib.contextmanager
def pair() -> Iterator[tuple[Host, Host]]:
  """Yields two connected hosts; skips the test if namespaces are forbidden."""
  mark = uuid.uuid4().hex[:8]
  hosts = [
    Host(f"slipway{mark}{end}", f"10.99.0.{end}", f"02:00:00:00:00:0{end}")
    for end in (1, 2)
  ]
  with contextlib.ExitStack() as stack:
    for host in hosts:
      try:
        _ip("netns", "add", host.namespace)
      except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"network namespaces are not allowed here: {error}")
      stack.callback(_ip, "netns", "del", host.namespace)
    ends = [
      ["eth0", "address", host.mac, "netns", host.namespace] for host in hosts
    ]
    _ip("link", "add", *ends[0], "type", "veth", "peer", *ends[1])
    for host in hosts:
      host.ip("address", "add", f"{host.address}/24", "dev", "eth0")
      host.ip("link", "set", "lo", "up")
      host.ip("link", "set", "eth0", "up")
    yield hosts[0], hosts[1]


def _ip(*args: str) -> None:
  subprocess.run(["ip", *args], check=True, capture_output=True)
